// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/modeldescription.h"
#include "plan/resolvedplan.h"
#include "shard/shardlayout.h"

// What one rank does in one forward: the forward programs of a model, with module calls, wrappers and loops written
// out and the transforms of each style at its module's edges, as one flat list over numbered value slots. Made once a
// run; no tensor is touched and nothing of LibTorch is needed here.
namespace tpscope {

enum class Step {
    Operation,        // a row of OpKind
    FusedLinear,      // products of one input as one: out and parameters (the weights) in order
    AddBias,          // rowwise: the whole bias, once, after the all-reduce
    SplitInput,       // this rank's chunk of the last dimension
    DivideInput,      // by the number of ranks
    AllReduce,        // sum over the ranks
    AllGather,        // the ranks' chunks of the last dimension, side by side; width: of the whole
    SumInputGradient, // training only: identity, all-reduces the gradient
    SumColumnGradient, // training only: identity, all-reduces the gradient of the last `width` columns
    OwnExperts,       // indices and scores of the chosen experts as one rank sees them: its own by their number here, the
                      // others by one that no expert here has, with score 0. width: experts of a rank
    DispatchTokens,   // training only: hidden states, indices, scores -> the rows of this rank's experts, their indices,
                      // scores of 1, own scores, order, rows to and from each rank. width: experts of a rank
    ReturnTokens,     // training only: rows, own scores, order, rows to and from each rank, hidden states -> the weighted sum
    EnterHooked,      // training only: edges of a module whose parameters' gradients hooks sum
    LeaveHooked,
};

struct Instruction {
    static constexpr int none = -1; // a slot or parameter that is not there

    Step step = Step::Operation;
    const Operation *operation = nullptr; // Step::Operation; points into the ModelDescription
    ModuleIndex module;                   // self of the operation, or whose edge this is
    int layer = -1;                       // -1 outside layers
    std::vector<int> in;                  // slots
    std::vector<int> out;                 // slots; each is written by one instruction only
    std::vector<int> parameters;          // into InstructionList::parameters, in the order of the operation's row
    std::int64_t width = 0;               // ExpertProduct: experts that the module has on a rank
    std::string argument = {};            // the plain text argument its operation reads: the layer type of a rope table
    std::vector<int> lastUses;            // slots that nobody reads after this instruction
    std::int32_t eventModule = -1;        // Event::module: the module, or a fused name behind the tree's
    bool distributed = false;             // its module computes with DTensors: a table looks up only the ids it has
    bool isView = false;                  // looks at its input's memory in another shape, computes nothing
};

struct InstructionList {
    std::vector<Instruction> instructions;
    std::vector<std::string> parameters; // full names; a tied parameter under the name of its source
    int slotCount = 0;
    // Parameters that must lie behind one another in memory, by FusedLinear instruction; and what the fused products are
    // called in events, "model.layers.0.self_attn.q_proj+k_proj+v_proj", numbered from ModuleTree::modules.size() on.
    std::vector<std::vector<int>> together;
    std::vector<std::string> fusedNames;
    int ids = Instruction::none;    // slot of the token ids [B, T]
    int logits = Instruction::none; // slot of the result
};

struct LoweringOptions {
    bool training = false; // with the steps that only gradients need
    bool fuse = true;      // products of one input become one; never in training
};

// Errors: Unsupported (no description of the flow), CannotRun where transformers' forward raises whatever the shapes
// are: a style that reads the input of a module called with keywords, one that touches a tuple, an operation that mixes
// plain tensors with a sharded parameter, a config key the style needs.
// model and plan must outlive the list.
Result<InstructionList> lower(const ModelDescription &model, const ResolvedPlan &plan, const ShardLayout &layout,
                              const LoweringOptions &options = {});

// The list with products of one input made one (q, k and v; gate and up), where no bias, style or shape keeps them
// apart. Part of lower().
void fuseProducts(const ModelDescription &model, const ShardLayout &layout, InstructionList &list);

} // namespace tpscope
