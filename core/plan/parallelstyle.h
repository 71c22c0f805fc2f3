// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tpscope {

// One row a style. Source: REFERENCE section 2, transformers 5.24 distributed/tensor_parallel.py. Interpreters read the
// fields; nothing elsewhere asks for a style by name.
struct ParallelStyle {
    enum class WeightAxis { None, Rows, Last, First, Second }; // Rows: dim ndim-2. First, Second: dim 0, 1 (embeddings)
    enum class OneDim { Whole, Shard, BiasWhole };             // BiasWhole: "bias" whole, any other 1-D sharded
    enum class Input { None, Split, Divide };                  // takes its slice of a full input; divides it by p
    enum class Output { None, Reduce, Gather };
    enum class Sync { None, Sum, RopeColumns };                // all-reduce of the own parameters' gradients
    enum class Requires { Nothing, OutFeatures, InFeatures };  // install_forward raises without it

    std::string_view name;
    std::string_view canonical; // of an alias: colwise_rep -> colwise_gather_output; else the name itself
    WeightAxis weightAxis = WeightAxis::None;
    int groups = 1; // packed: 2 interleaved groups
    OneDim oneDim = OneDim::Whole;
    bool localTensors = false; // the module's forward runs on local tensors (else DTensor semantics when sharded)
    Input input = Input::None;
    Output output = Output::None;
    bool sumsInputGradient = false; // backward all-reduces the gradient of the module's input
    Sync sync = Sync::None;
    Requires requires_ = Requires::Nothing;
    bool expertParallel = false; // belongs in an ep_plan: refused or wrong in a tp_plan
    // True for the styles whose hooks this program is about: which mode hooks them is the run's choice.
    bool hooksParameters() const { return sync == Sync::Sum; }
    std::string_view summary = {}; // one line for completion lists and tool tips

    // The wrapper reads the first positional argument: called with keywords alone, the module fails in the forward.
    bool takesInput = false;
    // The wrapper needs a tensor as output: a tuple or an output object fails in the forward.
    bool takesOutput = false;
    // Cuts a dimension that a 1-D parameter lacks: shard_param raises on one, so the plan is refused at load.
    bool needsTwoDims = false;
    // Deals out whole experts: sets the module's num_experts to how many a rank has, and refuses a number that the ranks
    // do not divide, at load. Of a module without num_experts it just cuts.
    bool evenOnly = false;
    // Brings each token to the rank of its experts and the result back: without gradients every rank runs its own experts
    // on all tokens and the outputs are summed; with them tokens travel (all-to-all). Reads num_experts of the module
    // when the plan is applied and takes hidden states, indices and weights of the experts chosen.
    bool dispatchesTokens = false;
    // On a module (not on a parameter) of a tp_plan: refused at load.
    bool refusedInTpPlan = false;
    // A key the model's config must have; without it the first forward fails. "": none.
    std::string_view requiresConfigKey = {};
    // Reads the input as this rank's part of the sequence and holds the own parameters as replicated DTensors, whose
    // gradients DTensor sums over the ranks by itself, without a hook (sequence_parallel).
    bool tokenShards = false;
    // sumsInputGradient means every argument: hidden states and the weights of the chosen experts.
    bool sumsEveryInput = false;

    // What the wrapped module computes with.
    enum class Tensors {
        AsPlaced,         // its input and parameters as they are: a sharded parameter stays a DTensor
        Local,            // its own sharded parameters as local tensors
        LocalInInference, // so on a Linear without gradients; else input and parameters are DTensors
        Distributed,      // its input becomes a DTensor, its sharded parameters stay ones
    };
    constexpr Tensors tensors() const {
        if (tokenShards || weightAxis == WeightAxis::Second || (weightAxis == WeightAxis::First && takesOutput))
            return Tensors::Distributed;
        if (requires_ != Requires::Nothing)
            return Tensors::LocalInInference;
        return localTensors ? Tensors::Local : Tensors::AsPlaced;
    }
};

std::span<const ParallelStyle> parallelStyles();              // in upstream's order of REFERENCE section 1
const ParallelStyle *findStyle(std::string_view name);        // exact, case-sensitive; nullptr: unknown
// Names that an ep_plan had before and is refused for, whether or not they are styles still.
bool removedFromEpPlan(std::string_view name);
std::string_view nearestStyle(std::string_view name);         // by edit distance; "" when nothing is near

} // namespace tpscope
