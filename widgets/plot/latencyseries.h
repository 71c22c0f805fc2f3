// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <vector>

#include "run/runtrace.h"

// The token times of a run as the latency view draws them. Pure functions; any thread. Times in milliseconds.
namespace tpscope {

struct LatencySeries {
    std::vector<double> steps;        // measured decode steps of all repeats, in order
    std::vector<std::size_t> repeats; // index of the first step of each repeat after the first; empty when not known
    std::vector<double> first;        // time to the first token, one a repeat
    std::vector<double> warmup;       // decode steps before steps[0] that are left out; known only from events
};
LatencySeries latencySeries(const RunTrace &trace);

// Counts of values in equal bins over [low, low + width * counts.size()).
struct Histogram {
    double low = 0.0;
    double width = 1.0;
    std::vector<int> counts;
    double center(std::size_t bin) const { return low + width * (static_cast<double>(bin) + 0.5); }
};
// One set of bins for both, so that they compare: Freedman-Diaconis, between 12 and 60 bins; one when all
// values are the same.
struct HistogramPair {
    Histogram a;
    Histogram b;
};
HistogramPair histograms(const std::vector<double> &a, const std::vector<double> &b);

} // namespace tpscope
