// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/latencyseries.h"

#include <algorithm>
#include <cmath>

namespace tpscope {

LatencySeries latencySeries(const RunTrace &trace) {
    LatencySeries series{trace.tokenMs, {}, trace.timeToFirstTokenMs, {}};
    const std::size_t repeats = series.first.size();
    const std::size_t each = repeats ? series.steps.size() / repeats : 0;
    if (repeats > 1 && each * repeats == series.steps.size())
        for (std::size_t i = 1; i < repeats; ++i)
            series.repeats.push_back(i * each);
    if (trace.ranks.empty() || each == 0)
        return series;
    // Steps of the first decode among the events; what the statistics left out stands at its beginning.
    std::vector<double> decode;
    for (const Event &event : trace.ranks.front().events) {
        if (event.kind != EventKind::Token)
            continue;
        if (event.token <= 0 && !decode.empty())
            break;
        if (event.token >= 0)
            decode.push_back(static_cast<double>(event.duration) / 1e6);
    }
    if (decode.size() > each)
        series.warmup.assign(decode.begin(), decode.end() - static_cast<std::ptrdiff_t>(each));
    return series;
}

namespace {

constexpr double fewestBins = 12;
constexpr double mostBins = 60;

// Freedman-Diaconis; 0 where half of the values are the same.
double idealWidth(std::vector<double> values) {
    if (values.empty())
        return 0.0;
    std::ranges::sort(values);
    const double quartiles = values[values.size() * 3 / 4] - values[values.size() / 4];
    return 2.0 * quartiles / std::cbrt(static_cast<double>(values.size()));
}

} // namespace

HistogramPair histograms(const std::vector<double> &a, const std::vector<double> &b) {
    std::vector<double> all = a;
    all.insert(all.end(), b.begin(), b.end());
    HistogramPair pair;
    if (all.empty())
        return pair;
    const auto [least, most] = std::ranges::minmax(all);
    const double span = most - least;
    // The wider of the sides' own widths: what lies between the sides is no spread of either.
    const double ideal = std::max(idealWidth(a), idealWidth(b));
    const double wanted = ideal > 0 ? std::ceil(span / ideal) : mostBins * 0.75;
    const int bins = span > 0 ? static_cast<int>(std::clamp(wanted, fewestBins, mostBins)) : 1;
    // Values that are all the same still get a bin one can see.
    const double width = span > 0 ? span / bins : std::max(std::abs(least) * 0.02, 1e-6);
    const double low = span > 0 ? least : least - width / 2;
    const auto fill = [&](const std::vector<double> &values) {
        Histogram histogram{low, width, std::vector<int>(static_cast<std::size_t>(bins), 0)};
        for (const double value : values) {
            const int bin = std::clamp(static_cast<int>((value - low) / width), 0, bins - 1);
            ++histogram.counts[static_cast<std::size_t>(bin)];
        }
        return histogram;
    };
    pair.a = fill(a);
    pair.b = fill(b);
    return pair;
}

} // namespace tpscope
