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
    AddBias,          // rowwise: the whole bias, once, after the all-reduce
    SplitInput,       // this rank's chunk of the last dimension
    DivideInput,      // by the number of ranks
    AllReduce,        // sum over the ranks
    AllGather,        // the ranks' chunks of the last dimension, side by side; width: of the whole
    SumInputGradient, // training only: identity, all-reduces the gradient
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
    std::int64_t width = 0;
    std::vector<int> lastUses;            // slots that nobody reads after this instruction
    bool isView = false;                  // looks at its input's memory in another shape, computes nothing
};

struct InstructionList {
    std::vector<Instruction> instructions;
    std::vector<std::string> parameters; // full names; a tied parameter under the name of its source
    int slotCount = 0;
    int ids = Instruction::none;    // slot of the token ids [B, T]
    int logits = Instruction::none; // slot of the result
};

struct LoweringOptions {
    bool training = false; // with the steps that only gradients need
};

// Errors: Unsupported (no description of the flow), CannotRun where transformers' forward raises whatever the shapes
// are: a style that reads the input of a module called with keywords, one that touches a tuple, an operation that mixes
// plain tensors with a sharded parameter, a config key the style needs.
// model and plan must outlive the list.
Result<InstructionList> lower(const ModelDescription &model, const ResolvedPlan &plan, const ShardLayout &layout,
                              const LoweringOptions &options = {});

} // namespace tpscope
