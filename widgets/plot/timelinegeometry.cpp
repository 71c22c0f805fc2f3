// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelinegeometry.h"

#include <algorithm>
#include <cmath>

namespace tpscope {

TimelineLane::TimelineLane(std::vector<TimelineSpan> spans) : m_spans(std::move(spans)) {
    std::ranges::stable_sort(m_spans, {}, &TimelineSpan::start);
    const std::size_t n = m_spans.size();
    m_tree.resize(2 * n);
    for (std::size_t i = 0; i < n; ++i)
        m_tree[n + i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = n; i-- > 1;) {
        const std::uint32_t a = m_tree[2 * i];
        const std::uint32_t b = m_tree[2 * i + 1];
        // The first of equals wins; the order of leaves in an uneven tree is not that of indices.
        const bool second = m_spans[b].weight > m_spans[a].weight || (m_spans[b].weight == m_spans[a].weight && b < a);
        m_tree[i] = second ? b : a;
    }
}

std::size_t TimelineLane::firstEndingAfter(std::int64_t t) const {
    const auto found = std::ranges::upper_bound(m_spans, t, {}, &TimelineSpan::end);
    return static_cast<std::size_t>(found - m_spans.begin());
}

std::size_t TimelineLane::heaviest(std::size_t begin, std::size_t end) const {
    const std::size_t n = m_spans.size();
    std::size_t best = begin;
    const auto consider = [&](std::uint32_t candidate) {
        if (m_spans[candidate].weight > m_spans[best].weight ||
            (m_spans[candidate].weight == m_spans[best].weight && candidate < best))
            best = candidate;
    };
    for (std::size_t left = begin + n, right = end + n; left < right; left /= 2, right /= 2) {
        if (left & 1)
            consider(m_tree[left++]);
        if (right & 1)
            consider(m_tree[--right]);
    }
    return best;
}

namespace {

struct Column {
    std::size_t begin = 0; // spans that touch the column
    std::size_t end = 0;
};

Column columnOf(const TimelineLane &lane, double from, double perPixel, int column) {
    const double left = from + perPixel * column;
    const double right = left + perPixel;
    const auto &spans = lane.spans();
    std::size_t begin = lane.firstEndingAfter(static_cast<std::int64_t>(std::floor(left)));
    // A span without duration still is at its instant.
    while (begin > 0 && spans[begin - 1].duration == 0 && static_cast<double>(spans[begin - 1].start) >= left)
        --begin;
    const auto last = std::lower_bound(
        spans.begin() + static_cast<std::ptrdiff_t>(begin), spans.end(), right,
        [](const TimelineSpan &span, double t) { return static_cast<double>(span.start) < t; });
    return {begin, std::max(begin, static_cast<std::size_t>(last - spans.begin()))};
}

} // namespace

std::vector<PixelRun> visibleRuns(const TimelineLane &lane, double from, double to, int width) {
    std::vector<PixelRun> runs;
    if (lane.spans().empty() || width <= 0 || !(to > from))
        return runs;
    const double perPixel = (to - from) / width;
    for (int x = 0; x < width; ++x) {
        const Column column = columnOf(lane, from, perPixel, x);
        if (column.begin == column.end)
            continue;
        const std::size_t span = lane.heaviest(column.begin, column.end);
        const bool merged = column.end - column.begin > 1;
        if (!runs.empty() && runs.back().span == span && runs.back().right == x) {
            runs.back().right = x + 1;
            runs.back().merged = runs.back().merged || merged;
        } else {
            runs.push_back({x, x + 1, span, merged});
        }
    }
    return runs;
}

std::ptrdiff_t spanAt(const TimelineLane &lane, double from, double to, int width, int column) {
    if (lane.spans().empty() || width <= 0 || column < 0 || column >= width || !(to > from))
        return -1;
    const Column touched = columnOf(lane, from, (to - from) / width, column);
    return touched.begin == touched.end ? -1 : static_cast<std::ptrdiff_t>(lane.heaviest(touched.begin, touched.end));
}

namespace {

TimeRange within(TimeRange range, const TimeRange &limits) {
    const double length = std::min(range.length(), limits.length());
    range.from = std::clamp(range.from, limits.from, limits.to - length);
    range.to = range.from + length;
    return range;
}

} // namespace

TimeRange zoomed(const TimeRange &range, double about, double factor, const TimeRange &limits,
                 double shortest) {
    const double length = std::clamp(range.length() * factor, std::min(shortest, limits.length()), limits.length());
    const double share = range.length() > 0 ? (about - range.from) / range.length() : 0.5;
    const double from = about - share * length;
    return within({from, from + length}, limits);
}

TimeRange panned(const TimeRange &range, double share, const TimeRange &limits) {
    const double shift = range.length() * share;
    return within({range.from + shift, range.to + shift}, limits);
}

} // namespace tpscope
