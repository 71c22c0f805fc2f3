// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/processgroup.h"
#include "graph/hooksites.h"
#include "model/weightsource.h"
#include "shard/shardlayout.h"

// Training steps of one rank with real gradients: what `gradcheck` looks at. No LibTorch type in here.
namespace tpscope {

struct TrainingRequest {
    std::vector<std::vector<std::int64_t>> ids; // prompts, padded on the left; also the labels, shifted by one
    int microSteps = 1;                         // backwards before the gradients are looked at
    enum class Between { Accumulate, SetToNone, SetToZero };
    Between between = Between::Accumulate;      // what happens to the gradients between two of them
    int forwardsPerBackward = 1;                // of which the losses are summed
    std::vector<std::string> trainable;         // patterns of parameters ("*" any text) that train; empty: all
    HookMode hooks = HookMode::PostAccumulateGrad;
    std::string attention;                      // "" the model's default
    bool gradientCheckpointing = false;         // each layer is computed again in the backward
    std::function<void(ModuleIndex)> onModule = [](ModuleIndex) {}; // before each instruction of a forward
};

// Hooks that were really there at these moments.
struct HookCounts {
    int afterLoad = 0;
    int afterFirstForward = 0;
    int afterSteps = 0;
};

struct LocalGradient {
    bool trained = false;     // has a gradient at all
    std::vector<float> value; // of the local shard, row-major
    int reductions = 0;       // all-reduces by hooks so far
};

struct TrainingResult {
    std::vector<double> losses; // one a micro-step
    std::map<std::string, LocalGradient> gradients; // by full name; tied parameters once
    HookCounts hooks;
    std::map<std::string, CollectiveCount> collectives; // of the first micro-step, its hooks included
};

// Loads this rank's shards and runs request.microSteps times forward, cross-entropy as transformers' causal language
// models compute it (float32, labels shifted by one, mean), and backward. group nullptr: one rank.
// Errors: those of loading and lowering; RunFailed where a forward or backward raises, naming the module.
Result<TrainingResult> trainRank(const ModelDescription &model, const ResolvedPlan &plan, const WeightSource &weights,
                                 ProcessGroup *group, const TrainingRequest &request);

} // namespace tpscope
