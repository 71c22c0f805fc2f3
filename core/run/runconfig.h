// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graphcapture.h"
#include "lint/lint.h"
#include "model/modeldescription.h"
#include "plan/resolvedplan.h"

namespace tpscope {

enum class Backend { Simulated, Gloo, Transformers };
std::string_view name(Backend backend);
Result<Backend> parseBackend(const std::string &text);

// Where a number comes from. Every number a person sees carries one.
enum class Source { Measured, Simulated, Predicted, NotChecked };
std::string_view name(Source source); // "measured", "simulated", "predicted", "not checked"
Result<Source> parseSource(const std::string &text);

// How ranks exchange small messages: Gloo's own all-reduce, or one send/recv exchange summed in rank order.
enum class Collectives { Gloo, OneShot };
std::string_view name(Collectives collectives); // "gloo", "one-shot"
Result<Collectives> parseCollectives(const std::string &text);

// One run, complete: with the same RunConfig two runs do the same work.
struct RunConfig {
    std::string modelArgument;  // as given; where the weights are
    std::string planArgument;   // as given: auto | none | path
    std::string planText;       // text of the document, "" for auto and none
    int tp = 1;
    int ep = 1;                 // ranks that share the experts: 1 or tp
    HookMode hooks = HookMode::PostAccumulateGrad;
    Backend backend = Backend::Gloo;
    Collectives collectives = Collectives::Gloo;
    std::vector<std::vector<std::int64_t>> inputIds; // a batch of prompts; shorter ones are padded on the left
    int newTokens = 16;
    int warmupTokens = 2;       // decode steps left out of the statistics, on top of newTokens
    int repeat = 1;             // whole decodes
    std::uint64_t seed = 0;     // of random weights
    int threads = 1;            // per rank
    std::string profile = "cpu-gloo"; // simulated: name or file of a hardware profile
    std::string attention;      // "" the model's default
    bool compile = true;        // transformers: torch.compile or eager
    std::string compileBackend = "inductor";
    int recompileLimit = 8;
    std::chrono::seconds timeout{600}; // of the whole run
    int port = 0;               // of the ranks' rendezvous on loopback; 0: a free one
    std::string logitsFile;     // "" none; safetensors with "logits" and "decode_logits"
    Upstream upstream;
    bool eventsWanted = false;  // keep the event columns
};

// Everything a runner needs that was computed before.
struct RunInput {
    const ModelDescription &model;
    const ResolvedPlan &plan;
    RunConfig config;
};

} // namespace tpscope
