// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelinegeometry.h"

#include <algorithm>
#include <cmath>

namespace tpscope {

TimelineLane::TimelineLane(std::vector<TimelineSpan> spans) : m_spans(std::move(spans)) {
    std::ranges::stable_sort(m_spans, {}, &TimelineSpan::start);
    const std::size_t n = m_spans.size();
    m_weights.resize(n);
    m_tree.resize(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
        m_weights[i] = m_spans[i].weight;
        m_tree[n + i] = static_cast<std::uint32_t>(i);
    }
    for (std::size_t i = n; i-- > 1;)
        m_tree[i] = outweighs(m_tree[2 * i + 1], m_tree[2 * i]) ? m_tree[2 * i + 1] : m_tree[2 * i];
}

std::size_t TimelineLane::heaviest(std::size_t begin, std::size_t end) const {
    const std::size_t n = m_spans.size();
    auto best = static_cast<std::uint32_t>(begin);
    const auto consider = [&](std::uint32_t candidate) {
        if (outweighs(candidate, best))
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

// The first index from `from` on for which isThere holds; it holds for all later ones. Near ones are found first:
// columns are asked for from left to right.
template <typename Predicate> std::size_t firstFrom(std::size_t from, std::size_t size, Predicate isThere) {
    std::size_t step = 1;
    std::size_t low = from; // nothing before low
    while (low < size && !isThere(std::min(low + step, size) - 1)) {
        low = std::min(low + step, size);
        step *= 2;
    }
    std::size_t high = std::min(low + step, size);
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (isThere(middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// from: where a column further left begins.
Column columnOf(const TimelineLane &lane, const Column &from, double left, double right) {
    const auto &spans = lane.spans();
    // A span without duration still is at its instant.
    const std::size_t begin = firstFrom(from.begin, spans.size(), [&](std::size_t i) {
        const auto start = static_cast<double>(spans[i].start);
        return start + static_cast<double>(spans[i].duration) > left || (spans[i].duration == 0 && start >= left);
    });
    const std::size_t end = firstFrom(std::max(begin, from.end), spans.size(), [&](std::size_t i) {
        return static_cast<double>(spans[i].start) >= right;
    });
    return {begin, end};
}

} // namespace

std::vector<PixelRun> visibleRuns(const TimelineLane &lane, double from, double to, int width) {
    std::vector<PixelRun> runs;
    if (lane.spans().empty() || width <= 0 || !(to > from))
        return runs;
    const double perPixel = (to - from) / width;
    Column column;
    for (int x = 0; x < width; ++x) {
        const double left = from + perPixel * x;
        column = columnOf(lane, column, left, left + perPixel);
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
    const double perPixel = (to - from) / width;
    const double left = from + perPixel * column;
    const Column touched = columnOf(lane, {}, left, left + perPixel);
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
