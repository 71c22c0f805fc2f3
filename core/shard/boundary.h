// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "model/moduletree.h"
#include "model/modelconfig.h"
#include "plan/parallelstyle.h"
#include "shard/shardlayout.h"

namespace tpscope {

// What a style does at the edges of one module's forward, as the executor carries it out.
struct Boundary {
    bool splitsInput = false;
    bool dividesInput = false;
    bool sumsInputGradient = false;
    bool sumsEveryInput = false;    // of all arguments, not of the first alone
    bool reduces = false;
    bool dispatches = false;        // tokens go to the ranks of their experts, with gradients; without, outputs are summed
    bool gathers = false;
    bool defersBias = false;        // the bias is added after the reduction
    bool hooksParameters = false;   // the own parameters' gradients are summed over the ranks
    std::int64_t gatheredWidth = 0; // of the last dimension of the gathered output
    std::int64_t summedColumns = 0; // last columns of the output whose gradient is summed over the ranks
};

// From the style's row and the module's facts; nullptr: no style. Errors: CannotRun where transformers' forward raises
// (module called with keywords or returning a tuple, config key missing).
// Source: transformers 5.24, distributed/tensor_parallel.py, transform_inputs_pre_forward and
// transform_output_post_forward of each style.
// weight: where the module's own parameter of that name lies; nullptr: it has none. Unsupported: where DTensor would
// exchange in a way that the executor does not know.
Result<Boundary> boundaryOf(const ParallelStyle *style, const Module &module, const ModelConfig &config,
                            const Placement *weight);

} // namespace tpscope
