// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <vector>

#include "base/summary.h"

namespace tpscope {

// Hodges-Lehmann shift of b against a (median of all b_j - a_i), its distribution-free confidence interval, and the
// two-sided p of the Wilcoxon rank-sum test. Exact quantiles of the Mann-Whitney distribution when both sides have at most
// 25 samples and no two samples are equal, else its normal approximation with tie and continuity correction. Infinite
// ends of the interval: so few samples allow no interval of this confidence. Source: Hollander, Wolfe, Chicken,
// Nonparametric Statistical Methods, chapter 4.
struct ShiftEstimate {
    double shift = 0.0;
    double low = 0.0;
    double high = 0.0;
    double p = 1.0;
};

// For independent samples, in any order.
ShiftEstimate estimateShift(const std::vector<double> &a, const std::vector<double> &b, double confidence = 0.95);

// For time series, such as token times of one decode after another: neighbours resemble each other (a noisy neighbour on
// the machine, a clock that steps), so that the plain test claims differences between identical programs several times
// too often. The variance of the rank sum is inflated by the autocorrelation of the ranks within each side, and Student's t
// with the effective number of samples replaces the normal quantile. Never narrower than estimateShift.
ShiftEstimate estimateShiftOfSeries(const std::vector<double> &a, const std::vector<double> &b,
                                    double confidence = 0.95);

// How many times larger the variance of a series' mean is than that of independent samples: 1 + 2 sum of
// autocorrelations, Geyer's initial monotone sequence, at least 1. n / inflation is the effective number of samples.
double varianceInflation(const std::vector<double> &series);

} // namespace tpscope
