// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <vector>

#include "base/summary.h"

namespace tpscope {

// Hodges-Lehmann shift of b against a (median of all b_j - a_i), its distribution-free confidence interval, and the
// two-sided p of the Wilcoxon rank-sum test (normal approximation with ties, exact for small n).
struct ShiftEstimate {
    double shift = 0.0;
    double low = 0.0;
    double high = 0.0;
    double p = 1.0;
};
ShiftEstimate estimateShift(const std::vector<double> &a, const std::vector<double> &b, double confidence = 0.95);

} // namespace tpscope
