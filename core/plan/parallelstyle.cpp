// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/parallelstyle.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"

namespace tpscope {
namespace {

using Axis = ParallelStyle::WeightAxis;
using OneDim = ParallelStyle::OneDim;
using Input = ParallelStyle::Input;
using Output = ParallelStyle::Output;
using Sync = ParallelStyle::Sync;
using Requires = ParallelStyle::Requires;

// Every style registered in ALL_PARALLEL_STYLES of transformers 5.24, in its order. Source: distributed/
// tensor_parallel.py (shard_param, transform_*, install_forward of each class) and distributed/expert_parallel.py.
constexpr std::array<ParallelStyle, 20> styles{{
    {.name = "embedding_rowwise",
     .canonical = "embedding_rowwise",
     .weightAxis = Axis::First,
     .oneDim = OneDim::Shard,
     .localTensors = true,
     .output = Output::Reduce,
     .summary = "Embedding: vocabulary sharded, masked look-up, output all-reduced",
     .takesInput = true,
     .takesOutput = true},
    {.name = "embedding_colwise",
     .canonical = "embedding_colwise",
     .weightAxis = Axis::Second,
     .localTensors = true,
     .output = Output::Gather,
     .summary = "Embedding: hidden dimension sharded, output all-gathered",
     .takesInput = true,
     .takesOutput = true,
     .needsTwoDims = true},
    {.name = "colwise_gather_output",
     .canonical = "colwise_gather_output",
     .weightAxis = Axis::Rows,
     .oneDim = OneDim::Shard,
     .localTensors = true,
     .output = Output::Gather,
     .sumsInputGradient = true,
     .requires_ = Requires::OutFeatures,
     .summary = "Linear: output features sharded, output all-gathered",
     .takesInput = true,
     .takesOutput = true},
    {.name = "colwise_rep",
     .canonical = "colwise_gather_output",
     .weightAxis = Axis::Rows,
     .oneDim = OneDim::Shard,
     .localTensors = true,
     .output = Output::Gather,
     .sumsInputGradient = true,
     .requires_ = Requires::OutFeatures,
     .summary = "Older name of colwise_gather_output",
     .takesInput = true,
     .takesOutput = true},
    {.name = "colwise",
     .canonical = "colwise",
     .weightAxis = Axis::Rows,
     .oneDim = OneDim::Shard,
     .localTensors = true,
     .sumsInputGradient = true,
     .requires_ = Requires::OutFeatures,
     .summary = "Linear: output features sharded, output stays sharded on its last dimension",
     .takesInput = true,
     .takesOutput = true},
    {.name = "rowwise",
     .canonical = "rowwise",
     .weightAxis = Axis::Last,
     .oneDim = OneDim::BiasWhole,
     .localTensors = true,
     .output = Output::Reduce,
     .requires_ = Requires::InFeatures,
     .summary = "Linear: input features sharded, expects a sharded input, output all-reduced",
     .takesInput = true,
     .takesOutput = true},
    {.name = "rowwise_split_input",
     .canonical = "rowwise_split_input",
     .weightAxis = Axis::Last,
     .oneDim = OneDim::BiasWhole,
     .localTensors = true,
     .input = Input::Split,
     .output = Output::Reduce,
     .requires_ = Requires::InFeatures,
     .summary = "Linear: input features sharded, takes its slice of a whole input, output all-reduced",
     .takesInput = true,
     .takesOutput = true},
    {.name = "rowwise_rep",
     .canonical = "rowwise_split_input",
     .weightAxis = Axis::Last,
     .oneDim = OneDim::BiasWhole,
     .localTensors = true,
     .input = Input::Split,
     .output = Output::Reduce,
     .requires_ = Requires::InFeatures,
     .summary = "Older name of rowwise_split_input",
     .takesInput = true,
     .takesOutput = true},
    {.name = "packed_colwise",
     .canonical = "packed_colwise",
     .weightAxis = Axis::Rows,
     .groups = 2,
     .oneDim = OneDim::Shard,
     .localTensors = true,
     .sumsInputGradient = true,
     .summary = "Fused gate and up: each half of the output features sharded by itself",
     .takesInput = true},
    {.name = "packed_rowwise",
     .canonical = "packed_rowwise",
     .weightAxis = Axis::Last,
     .groups = 2,
     .summary = "Bare fused parameter: each half of the last dimension sharded by itself"},
    {.name = "sequence_parallel",
     .canonical = "sequence_parallel",
     .summary = "Norm on this rank's part of the sequence; parameters whole",
     .takesInput = true,
     .tokenShards = true},
    {.name = "replicated_with_grad_allreduce",
     .canonical = "replicated_with_grad_allreduce",
     .sync = Sync::Sum,
     .summary = "Whole on each rank; gradients of the own parameters summed over the ranks"},
    {.name = "mla_kv_a_proj",
     .canonical = "mla_kv_a_proj",
     .sync = Sync::RopeColumns,
     .summary = "Whole on each rank; gradient of the rope columns summed over the ranks",
     .takesOutput = true,
     .requiresConfigKey = "qk_rope_head_dim"},
    {.name = "all_reduce",
     .canonical = "all_reduce",
     .output = Output::Reduce,
     .summary = "Whole on each rank; the module's output is all-reduced",
     .takesOutput = true},
    {.name = "moe_tp_experts",
     .canonical = "moe_tp_experts",
     .localTensors = true,
     .output = Output::Reduce,
     .sumsInputGradient = true,
     .summary = "Experts sharded by their parameters' rules; output all-reduced",
     .takesInput = true,
     .takesOutput = true,
     .sumsEveryInput = true},
    {.name = "moe_identity_expert",
     .canonical = "moe_identity_expert",
     .input = Input::Divide,
     .summary = "Identity expert: input divided by the number of ranks",
     .takesInput = true},
    {.name = "local_params",
     .canonical = "local_params",
     .localTensors = true,
     .summary = "Forward runs on the local shards of parameters that have rules of their own"},
    {.name = "replicate", .canonical = "replicate", .summary = "Whole on each rank; cancels an inherited rule"},
    {.name = "grouped_gemm",
     .canonical = "grouped_gemm",
     .weightAxis = Axis::First,
     .oneDim = OneDim::Shard,
     .expertParallel = true,
     .summary = "Expert parallel: whole experts sharded over the ranks",
     .evenOnly = true},
    {.name = "ep_dispatch_experts",
     .canonical = "ep_dispatch_experts",
     .localTensors = true,
     .output = Output::Reduce,
     .expertParallel = true,
     .summary = "Expert parallel: brings each token to the ranks of its experts",
     .takesInput = true,
     .takesOutput = true,
     .dispatchesTokens = true,
     .refusedInTpPlan = true},
}};

} // namespace

std::span<const ParallelStyle> parallelStyles() { return styles; }

const ParallelStyle *findStyle(std::string_view name) {
    const auto found = std::ranges::find(styles, name, &ParallelStyle::name);
    return found == styles.end() ? nullptr : &*found;
}

// Source: transformers 5.24 distributed/mixin.py _resolve_parallel_plans.
bool removedFromEpPlan(std::string_view name) { return name == "ep_router" || name == "moe_tp_experts"; }

std::string_view nearestStyle(std::string_view name) {
    std::vector<std::string> names;
    for (const ParallelStyle &style : styles)
        names.emplace_back(style.name);
    const ParallelStyle *style = findStyle(nearest(name, names));
    return style ? style->name : std::string_view{};
}

} // namespace tpscope
