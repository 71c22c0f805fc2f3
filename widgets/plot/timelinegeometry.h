// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <vector>

namespace tpscope {

// One span of a timeline lane. Times in nanoseconds. Spans of a lane do not overlap and stand by start.
struct TimelineSpan {
    std::int64_t start = 0;
    std::int64_t duration = 0;
    std::uint8_t kind = 0;     // index into the view's colours
    std::uint8_t weight = 0;   // what shows where many spans meet one pixel: the heaviest
    std::int32_t item = -1;    // the view's own index: which event this is
    std::int64_t end() const { return start + duration; }
};

// The spans of one lane with an index that finds the heaviest of any range in O(log n). Immutable once built.
class TimelineLane {
public:
    TimelineLane() = default;
    explicit TimelineLane(std::vector<TimelineSpan> spans); // sorts them

    const std::vector<TimelineSpan> &spans() const { return m_spans; }
    // Index of the heaviest span in [begin, end), the first of equals. begin < end.
    std::size_t heaviest(std::size_t begin, std::size_t end) const;

private:
    bool outweighs(std::uint32_t a, std::uint32_t b) const {
        return m_weights[a] > m_weights[b] || (m_weights[a] == m_weights[b] && a < b);
    }
    std::vector<TimelineSpan> m_spans;
    std::vector<std::uint8_t> m_weights; // of m_spans, close together: a query looks at dozens
    std::vector<std::uint32_t> m_tree; // segment tree of indices, leaves at [n, 2n)
};

// A run of pixel columns that one span fills.
struct PixelRun {
    int left = 0;  // first column
    int right = 0; // one behind the last
    std::size_t span = 0;
    bool merged = false; // more than one span met in it
    bool operator==(const PixelRun &) const = default;
};

// What a lane of `width` columns shows of [from, to): never more runs than columns, and each span that is the heaviest
// of its column is seen at every zoom. Cost: O(width log n).
std::vector<PixelRun> visibleRuns(const TimelineLane &lane, double from, double to, int width);

// The span at a column, the heaviest when several meet there; -1 when the column is empty.
std::ptrdiff_t spanAt(const TimelineLane &lane, double from, double to, int width, int column);

struct TimeRange {
    double from = 0;
    double to = 1;
    double length() const { return to - from; }
    bool operator==(const TimeRange &) const = default;
};

// Zoom about a point by a factor (< 1 closer), and pan by a share of the width; both stay inside limits. shortest: what
// zooming in ends at, one microsecond unless the axis is another one.
TimeRange zoomed(const TimeRange &range, double about, double factor, const TimeRange &limits,
                 double shortest = 1000.0);
TimeRange panned(const TimeRange &range, double share, const TimeRange &limits);

} // namespace tpscope
