// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/summary.h"

#include <algorithm>
#include <cmath>

namespace tpscope {

double quantileOfSorted(const std::vector<double> &sorted, double q) {
    if (sorted.empty())
        return 0.0;
    const double position = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary summarize(std::vector<double> values) {
    Summary summary;
    summary.n = values.size();
    if (values.empty())
        return summary;
    std::ranges::sort(values);
    summary.median = quantileOfSorted(values, 0.5);
    summary.p90 = quantileOfSorted(values, 0.9);
    summary.p99 = quantileOfSorted(values, 0.99);
    for (double &value : values)
        value = std::abs(value - summary.median);
    std::ranges::sort(values);
    summary.mad = quantileOfSorted(values, 0.5);
    return summary;
}

} // namespace tpscope
