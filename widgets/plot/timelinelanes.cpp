// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelinelanes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <unordered_map>

namespace tpscope {
namespace {

constexpr std::size_t mostParallelLanes = 4;

LaneKind laneOf(EventKind kind) {
    switch (kind) {
    case EventKind::Compute: return LaneKind::Compute;
    case EventKind::Collective: return LaneKind::Collectives;
    case EventKind::HookRegistration: return LaneKind::Hooks;
    case EventKind::Launch: return LaneKind::Launches;
    case EventKind::Token:
    case EventKind::Phase: return LaneKind::Tokens;
    }
    return LaneKind::Compute;
}

// Events of one sort: what is usual is told by their median. The prefill and its operations are a sort of their own.
std::uint64_t sortOf(const Event &event) {
    const auto part = [](std::int32_t value) { return static_cast<std::uint64_t>(value + 1) & 0xFFFFFF; };
    return part(event.module) | part(event.op) << 24 | static_cast<std::uint64_t>(event.kind) << 48 |
           static_cast<std::uint64_t>(event.token >= 0) << 56;
}

class Usual {
public:
    explicit Usual(const std::vector<Event> &events) {
        std::unordered_map<std::uint64_t, std::vector<std::int64_t>> durations;
        for (const Event &event : events)
            durations[sortOf(event)].push_back(event.duration);
        for (auto &[sort, values] : durations) {
            if (values.size() < fewestOfAKind)
                continue;
            const auto nth = [&values](std::size_t n) {
                const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::min(n, values.size() - 1));
                std::ranges::nth_element(values, place);
                return *place;
            };
            const auto usual = static_cast<std::int64_t>(outlierFactor * static_cast<double>(nth(values.size() / 2)));
            const auto rare = static_cast<std::size_t>(outlierShare * static_cast<double>(values.size()));
            m_limit[sort] = std::max({shortestOutlier, usual + 1, nth(values.size() - 1 - rare)});
        }
    }
    bool isOutlier(const Event &event) const {
        if (event.duration < shortestOutlier)
            return false;
        const auto found = m_limit.find(sortOf(event));
        return found != m_limit.end() && event.duration >= found->second;
    }

private:
    std::unordered_map<std::uint64_t, std::int64_t> m_limit; // from here on unusual
};

// Where many meet in one pixel the longest is shown, and a marked one before all others.
std::uint8_t weightOf(const Event &event, const Usual &usual) {
    if (usual.isOutlier(event))
        return 255;
    const double magnitude = std::log2(static_cast<double>(std::max<std::int64_t>(event.duration, 1)));
    return static_cast<std::uint8_t>(std::min(249.0, 4.0 * magnitude));
}

std::uint8_t colorOf(const Event &event, LaneKind kind) {
    if (event.kind == EventKind::Token && event.token >= 0 && event.token % 2 == 1)
        return oddTokenColor;
    return static_cast<std::uint8_t>(kind);
}

// Spans of one kind in as few lanes as overlaps need; what would need more lanes than there are joins the last.
class Lanes {
public:
    void setMost(std::size_t most) { m_most = most; }
    void add(const TimelineSpan &span) {
        std::size_t lane = 0;
        while (lane < m_ends.size() && span.start < m_ends[lane] && lane + 1 < m_most)
            ++lane;
        if (lane == m_ends.size()) {
            m_ends.push_back(std::numeric_limits<std::int64_t>::min());
            m_spans.emplace_back();
        }
        TimelineSpan placed = span;
        if (placed.start < m_ends[lane]) { // the last lane: cut what is covered already
            placed.duration = std::max<std::int64_t>(0, placed.end() - m_ends[lane]);
            placed.start = m_ends[lane];
        }
        m_ends[lane] = placed.end();
        m_spans[lane].push_back(placed);
    }
    std::vector<std::vector<TimelineSpan>> take() { return std::move(m_spans); }

private:
    std::size_t m_most = mostParallelLanes;
    std::vector<std::int64_t> m_ends;
    std::vector<std::vector<TimelineSpan>> m_spans;
};

std::string formatted(const char *format, double value) {
    char text[48];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string nameAt(const std::vector<std::string> &names, std::int32_t index) {
    return index >= 0 && static_cast<std::size_t>(index) < names.size() ? names[static_cast<std::size_t>(index)]
                                                                        : std::string();
}

} // namespace

std::int64_t originOf(const RankTrace &rank) {
    const auto first = std::ranges::find(rank.events, EventKind::Token, &Event::kind);
    if (first != rank.events.end() && first->token < 0)
        return first->start;
    // The simulated prefill is a phase, which its first token follows.
    const auto phase = std::ranges::find(rank.events, EventKind::Phase, &Event::kind);
    if (first != rank.events.end() && phase != rank.events.end() && phase->start + phase->duration == first->start)
        return phase->start;
    return first != rank.events.end() ? first->start : 0;
}

std::vector<RankLane> lanesOfRank(const RunTrace &trace, std::size_t rankIndex) {
    const std::vector<Event> &events = trace.ranks[rankIndex].events;
    const std::int64_t origin = originOf(trace.ranks[rankIndex]);
    const Usual usual(events);
    std::array<Lanes, laneKindCount> byKind;
    byKind[static_cast<std::size_t>(LaneKind::Hooks)].setMost(1); // instants: where they are is what counts
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Event &event = events[i];
        const LaneKind kind = laneOf(event.kind);
        byKind[static_cast<std::size_t>(kind)].add({event.start - origin, event.duration, colorOf(event, kind),
                                                    weightOf(event, usual), static_cast<std::int32_t>(i)});
    }
    std::vector<RankLane> lanes;
    for (std::size_t kind = 0; kind < byKind.size(); ++kind) {
        bool continued = false;
        for (std::vector<TimelineSpan> &spans : byKind[kind].take()) {
            lanes.push_back({rankIndex, static_cast<LaneKind>(kind), continued, TimelineLane(std::move(spans))});
            continued = true;
        }
    }
    return lanes;
}

RankTrace tokensEndToEnd(const RunTrace &trace) {
    RankTrace rank;
    std::int64_t at = 0;
    const auto add = [&](double ms, std::int32_t token) {
        Event event;
        event.start = at;
        event.duration = std::max<std::int64_t>(0, std::llround(ms * 1e6));
        event.kind = EventKind::Token;
        event.token = token;
        at += event.duration;
        rank.events.push_back(event);
    };
    if (!trace.timeToFirstTokenMs.empty())
        add(trace.timeToFirstTokenMs.front(), -1);
    for (std::size_t i = 0; i < trace.tokenMs.size(); ++i)
        add(trace.tokenMs[i], static_cast<std::int32_t>(i));
    return rank;
}

std::string moduleOf(const RunTrace &trace, const Event &event) { return nameAt(trace.moduleNames, event.module); }
std::vector<std::string> modulesOfName(const std::string &name) {
    const std::size_t dot = name.rfind('.');
    const std::string prefix = dot == std::string::npos ? std::string() : name.substr(0, dot + 1);
    std::vector<std::string> modules;
    for (std::size_t begin = prefix.size(); begin <= name.size();) {
        const std::size_t plus = std::min(name.find('+', begin), name.size());
        modules.push_back(prefix + name.substr(begin, plus - begin));
        begin = plus + 1;
    }
    return modules;
}

std::string opOf(const RunTrace &trace, const Event &event) { return nameAt(trace.opNames, event.op); }

std::string shortLabel(const RunTrace &trace, const Event &event) {
    if (event.kind == EventKind::Token)
        return event.token < 0 ? "prefill" : "step " + std::to_string(event.token);
    const std::string module = moduleOf(trace, event);
    const std::string op = opOf(trace, event);
    if (event.kind == EventKind::Phase)
        return op.empty() ? "load" : op;
    const std::string place = module.substr(module.rfind('.') + 1);
    if (place.empty())
        return op.empty() ? std::string(name(event.kind)) : op;
    return event.kind == EventKind::Launch || op.empty() ? place : place + " " + op;
}

std::string durationText(double ns) {
    const double size = std::abs(ns);
    if (size < 1e3)
        return formatted("%.0f ns", ns);
    if (size < 1e6)
        return formatted(size < 1e5 ? "%.1f us" : "%.0f us", ns / 1e3);
    if (size < 1e9)
        return formatted(size < 1e7 ? "%.2f ms" : size < 1e8 ? "%.1f ms" : "%.0f ms", ns / 1e6);
    return formatted("%.2f s", ns / 1e9);
}

std::string bytesText(std::int64_t bytes) {
    if (bytes < 1024)
        return std::to_string(bytes) + " B";
    const double kib = static_cast<double>(bytes) / 1024.0;
    return kib < 1024 ? formatted("%.1f KiB", kib) : formatted("%.1f MiB", kib / 1024.0);
}

} // namespace tpscope
