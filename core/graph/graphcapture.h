// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/hooksites.h"

// Predicts what torch.compile (Dynamo of torch 2.13) makes of a model: a walk over frames against a
// cache of compiled entries, by the rules in README.md of this folder. No tensor is touched;
// everything here is predicted.
namespace tpscope {

struct CaptureOptions {
    int recompileLimit = 8;
    int prefillTokens = 8;
    int decodeSteps = 4;
    int staticCacheLength = 32; // positions
    int batch = 1;
    Upstream upstream;
};

struct CapturedGraph {
    int id = 0;          // in compile order
    std::string frame;   // "forward@modeling_qwen3.py"
    std::string program; // id of the ForwardProgram, or "resume of <program> after <module>"
    std::string endsAt;  // module whose call ended it; "" when the frame returned
    std::vector<std::string> labels; // what it holds, in order, for people
};

struct CapturedFrame {
    std::string name;
    int graphs = 0;
    std::string eagerBecause; // "" when compiled
};

struct GraphBreak {
    std::string module; // full name of the hooked module, layer numbers as "*"
    std::string cause;  // Dynamo's words
    std::string rule;   // key of the plan
    int line = 0;       // of the plan's text, 0 inherited
    std::string frame;  // innermost frame that breaks
};

struct PhaseCapture {
    int graphs = 0;                    // distinct, after all calls of the phase
    int launches = 0;                  // of the last call
    std::vector<int> launchesPerStep;  // decode: one a step; prefill: one a call
    std::vector<int> newGraphsPerStep; // graphs compiled in each call
    std::vector<int> launchSequence;   // graph ids of the last call
    // By launch of the last call: full name of the module whose code it is
    // ("model.layers.3.self_attn"); the root's is its class name.
    std::vector<std::string> launchModules;
    int breakCounter = 0; // counters["graph_break"]
    std::vector<CapturedGraph> graphList;
    std::vector<CapturedFrame> frames;
};

struct GraphCapture {
    HookMode hooks = HookMode::PostAccumulateGrad;
    std::vector<HookSite> sites;
    PhaseCapture prefill; // second call
    PhaseCapture decode;  // the last of decodeSteps
    int graphBreaks = 0;  // explain()'s number: distinct prefill graphs - 1
    std::vector<GraphBreak> breaks;
};

// Which version's wrappers to describe the model with, before describe() is called. chosen: what
// the user named (--upstream). Without it, module-backward means what transformers <= 5.21 does,
// since no later version hooks modules; every other mode means the newest. With it, the hook mode
// is taken as emulated on that version (5.24 with module-backward: more frames and breaks counted,
// since its decorators' wrappers break too).
Upstream captureUpstream(HookMode hooks, const std::optional<Upstream> &chosen);

// Requires model.flowKnown() (Unsupported otherwise). The caller has checked that the plan's
// outcome lets it run. Milliseconds: 1 to 50 for 2 to 80 layers. Thread-safe.
Result<GraphCapture> captureGraphs(const ModelDescription &model, const ResolvedPlan &plan,
                                   HookMode hooks, const CaptureOptions &options = {});

} // namespace tpscope
