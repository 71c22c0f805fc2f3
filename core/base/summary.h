// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <vector>

namespace tpscope {

// What is shown of a set of samples, in their unit. Quantiles interpolate linearly between order statistics
// (Hyndman and Fan's type 7, numpy's default).
struct Summary {
    std::size_t n = 0;
    double median = 0.0;
    double p90 = 0.0;
    double p99 = 0.0;
    double mad = 0.0; // median absolute deviation from the median, unscaled
    bool operator==(const Summary &) const = default;
};

Summary summarize(std::vector<double> values); // n = 0 for none; samples must be finite

// The quantile q (0..1) of sorted values; 0 for none.
double quantileOfSorted(const std::vector<double> &sorted, double q);

} // namespace tpscope
