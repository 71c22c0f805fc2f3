// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/runconfig.h"

namespace tpscope {

enum class EventKind : std::uint8_t { Compute, Collective, HookRegistration, Launch, Token, Phase };
std::string_view name(EventKind kind); // "compute", "collective", "hook", "launch", "token", "phase"

// One span on one rank. Times in nanoseconds since the run's start on that rank (steady clock).
struct Event {
    std::int64_t start = 0;
    std::int64_t duration = 0;
    EventKind kind = EventKind::Compute;
    std::int32_t token = -1;   // decode step; -1 prefill or load
    std::int32_t layer = -1;   // -1 outside layers
    std::int32_t module = -1;  // index into RunTrace::moduleNames; a fused kernel has a name of its own
    std::int32_t op = -1;      // index into RunTrace::opNames ("linear", "all_reduce", ...)
    std::int64_t bytes = 0;    // collectives: message size of one rank
};

struct RankTrace {
    int rank = 0;
    std::vector<Event> events; // by start; spans nest within a rank
};

struct CollectiveCount {
    std::int64_t count = 0; // per decode step, or micro-step of training, and rank
    std::int64_t bytes = 0; // sum of the message sizes of one rank
};

// Time of one module in one decode step: the median over measured steps, rank 0.
struct ModuleTime {
    std::string module; // full name; a layer's modules stand once a layer
    double computeMs = 0.0;
    double collectiveMs = 0.0; // on the wire and waiting for other ranks
    double launchMs = 0.0;     // launching the graphs that start in it; simulated only
};

struct Environment {
    std::string machine;  // CPU model, cores
    std::map<std::string, std::string> versions; // tpscope, torch, transformers, gloo ...
    std::string attention;
    std::string dtype;
    std::uint64_t seed = 0;
    int threads = 1;      // per rank
    std::string date;     // ISO 8601
    std::map<std::string, std::string> notes; // "oversubscribed": "4 ranks on 2 cores", "hooks": "emulated on 5.24.0"
};

// Graph numbers with their own source: predicted by capture or measured by Dynamo.
struct GraphNumbers {
    Source source = Source::NotChecked;
    int prefillGraphs = 0;
    int graphBreaks = 0; // explain's number
    int prefillLaunches = 0;
    int decodeGraphs = 0;
    int decodeLaunches = 0;
    int breakCounter = 0; // prefill
    int decodeBreakCounter = 0;
    std::vector<int> prefillSequence;
    std::vector<int> decodeSequence;
    std::vector<std::string> reasons;
};

// What a run gives, whatever the backend. Complete or partial (ended early: `partial` says why, numbers until then).
struct RunTrace {
    Backend backend = Backend::Gloo;
    Source source = Source::NotChecked; // of the times
    int tp = 1;
    HookMode hooks = HookMode::PostAccumulateGrad;
    Collectives collectivesKind = Collectives::Gloo;
    std::vector<std::vector<std::int64_t>> outputIds; // [batch][new tokens]; empty when not computed (simulated)
    bool idsRepeat = true;                // every repeat gave the same ids
    std::vector<double> tokenMs;          // measured decode steps of all repeats, warm-up excluded, rank 0
    std::vector<double> timeToFirstTokenMs; // one a repeat
    std::map<std::string, CollectiveCount> collectives; // "all_reduce", "all_gather" per decode step
    int hooksRegistered = 0;              // really present after the decode, one rank
    int launchesPerToken = 0;             // graphs launched per token; eager and native: 0
    std::vector<ModuleTime> perModule;
    std::optional<GraphNumbers> graphs;   // measured or predicted, says which
    std::optional<GraphNumbers> predictedGraphs; // the prediction beside measured graphs; none when graphs is one
    std::vector<RankTrace> ranks;
    std::vector<std::string> moduleNames;
    std::vector<std::string> opNames;
    std::vector<std::string> statements;  // what the source says of itself: fit, extrapolation, emulation
    std::vector<float> lastLogits;        // [batch * vocab] of the last step, rank 0; empty when not kept
    Environment environment;
    std::string partial;                  // "" complete
    // What was run, as it was named; "" in recordings that do not say. planText: of a plan file, "" for auto and none.
    std::string model;
    std::string plan;
    std::string planText;
};

// {"all_reduce": {"count", "bytes"}, ...}, and back, which throws nlohmann::json::exception.
nlohmann::json toJson(const std::map<std::string, CollectiveCount> &collectives);
std::map<std::string, CollectiveCount> collectivesFromJson(const nlohmann::json &json);

// Fills what a trace says of the run it comes from: model, plan, tp, hooks.
void describeRun(RunTrace &trace, const RunConfig &config);

// The JSON of `tpscope run` (DESIGN "Command line"), and back (a stored recording). Logits are not in it; events stand
// under "timeline" when the run kept them.
// Reading errors: BadInput that names `where`, the key, what was expected and what was found.
nlohmann::json toJson(const RunTrace &trace);
Result<RunTrace> runTraceFromJson(const nlohmann::json &json, const std::string &where);

// Machine name, cores, date and this program's version, for Environment.
Environment currentEnvironment();

} // namespace tpscope
