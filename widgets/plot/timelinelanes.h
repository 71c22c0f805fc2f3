// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "plot/timelinegeometry.h"
#include "run/runtrace.h"

// Which events stand in which lane of the timeline. Pure functions of a trace; any thread.
namespace tpscope {

enum class LaneKind : std::uint8_t { Tokens, Launches, Compute, Collectives, Hooks };
constexpr int laneKindCount = 5;

// Colours of spans: one a lane kind, and a second tone for every other token.
constexpr std::uint8_t oddTokenColor = laneKindCount;
constexpr int spanColorCount = laneKindCount + 1;

struct RankLane {
    std::size_t rank = 0; // index into RunTrace::ranks
    LaneKind kind = LaneKind::Tokens;
    bool continued = false; // a further lane of the kind before: spans that overlap in time
    TimelineLane spans;     // TimelineSpan::item: index into the rank's events
};

// An event is marked when it took more than this many times the median of its like (same module and operation) and is
// among the slowest of them; events shorter than shortestOutlier never are, since timers and caches alone make such
// factors there.
constexpr double outlierFactor = 5.0;
constexpr double outlierShare = 0.02;
constexpr std::int64_t shortestOutlier = 50'000; // ns
constexpr std::size_t fewestOfAKind = 5;         // else nothing can be called usual

// Of one rank, by kind; kinds without an event have no lane. Times are moved so that the rank's first token (prefill
// included) begins at 0: ranks and runs have clocks of their own, and what is compared is tokens.
std::vector<RankLane> lanesOfRank(const RunTrace &trace, std::size_t rank);

// Events of a run that kept none: its measured steps laid end to end, the first token (if known) before them.
RankTrace tokensEndToEnd(const RunTrace &trace);

// Start of the first token, the zero of lanesOfRank; 0 without one.
std::int64_t originOf(const RankTrace &rank);

// One event in words: "q_proj linear", "decode step 3", "prefill".
std::string shortLabel(const RunTrace &trace, const Event &event);
std::string moduleOf(const RunTrace &trace, const Event &event); // full name, "" none
// The modules a name stands for: a fused kernel's "a.b.q_proj+k_proj" is a.b.q_proj and a.b.k_proj.
std::vector<std::string> modulesOfName(const std::string &name);
std::string opOf(const RunTrace &trace, const Event &event);

// "12.3 us", "4.20 ms", "1.26 s"; bytes as "1.5 KiB".
std::string durationText(double nanoseconds);
std::string bytesText(std::int64_t bytes);

} // namespace tpscope
