// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lint/gradientflow.h"
#include "lint/value.h"
#include "plan/resolvedplan.h"

// Interprets a model's forward programs on layouts instead of tensors: what would transformers compute with this plan
// on so many ranks? Rules: DESIGN "A layout flow small enough to trust", REFERENCE section 2, transformers 5.24
// distributed/tensor_parallel.py. Nothing here knows a family or a style by name.
namespace tpscope {

// What went wrong at an operation or a module's boundary.
enum class FlowCause {
    InputWidth,       // a product whose input is wider or narrower than the weight here
    InputChannels,    // a product whose input holds other channels than the weight expects
    OperandWidth,     // two operands of different widths
    OperandChannels,  // two operands of equal widths that hold different channels
    ScaleHidden,      // a norm of something multiplied by the number of ranks: right but for the norm's eps
    OperandScale,     // a sum of two operands, one of them multiplied by the number of ranks
    HeadsCut,         // a head does not lie whole on one rank
    HeadCounts,       // local query and key/value heads cannot be paired
    ExpertsCut,       // each rank holds other experts, and nothing brings tokens to them
    ExpertCount,      // an expert weight holds another number of experts than the module has on a rank
    ExpertBiasWhole,  // an expert bias holds all experts, and is read by the numbers of this rank's experts
    ExpertShards,     // tokens go to the one rank of their experts, whose weights are parts
    DispatchCall,     // tokens are dispatched where the module is not called with states, indices and weights
    Misaligned,       // a local expert weight whose rows are no multiple of 16 bytes (grouped_mm)
    SlicedApart,      // a slice of a fused projection takes other channels than on one rank
    HeadsApart,       // local query heads meet the key/value heads of other query heads
    MixedTensors,     // a sharded parameter (DTensor) and a plain tensor in one operation
    KeywordInput,     // the style reads the first positional argument, the caller passes keywords
    TupleOutput,      // the style changes the output, which is a tuple or an output object
    OutputAttribute,  // the style reads an attribute the module lacks
    ConfigKey,        // the style reads a key the config lacks
    SequenceInput,    // pieces of a sequence where a whole one is expected
    VocabularyRows,   // a plain look-up in a slice of the vocabulary
    FractionalIds,    // token ids divided by the number of ranks
    GatherWidth,      // gathers something that is not this rank's chunk
    GatherChannels,   // gathers chunks of other channels
    ReducedWhole,     // sums over the ranks what each of them already has whole
    ReducedParts,     // sums over the ranks different channels
    DividedWhole,     // divides by the number of ranks what nothing sums
    PartialUsed,      // a sum over the ranks is missing
    BiasRepeated,     // a bias added on each rank before the sum over the ranks
    WholeNorm,        // a norm over all channels sees a part of them
    PartOfOutput,     // the model's output is spread over the ranks
    // Gradients only.
    GradientShare,    // each rank has a share of a parameter's gradient and nothing sums them
    GradientRepeated, // a gradient that each rank has whole is summed
    SharedHeads,      // key/value heads that several ranks use: their gradients are shares
    LinearShare,      // the gradient of a product's input is a share and nothing sums it
    InPlace,          // changes in place what a style made local of a DTensor
    WholeTraining,    // a plain weight where the training forward computes with DTensors
};

// One side of the edge a finding shows.
struct FlowSide {
    ModuleIndex module;
    Layout holds;
    std::string role; // "input", "weight", "query heads", ...
};

struct FlowFinding {
    FlowCause cause = FlowCause::InputWidth;
    bool stops = false;    // the forward raises; else a value is wrong
    bool harmless = false; // nothing came of it in the end
    ModuleIndex module;    // where it happens
    std::string operation; // for people: "matmul", "residual + attention"
    std::vector<FlowSide> sides; // producer first
    std::string parameter; // local name, where one parameter is meant
    std::vector<std::string> parameters; // full names of the parameters whose gradients it spoils
};

enum class ParameterSync { Exact, None, BeforeInputGradient };

struct FlowOptions {
    bool gradients = false;   // the forward as it runs with gradients enabled, and a backward
    bool everyLayer = false;  // false: one layer of each distinct kind
    bool stopAtError = false; // the verdict is enough
    std::string attention = "sdpa";
    std::int64_t promptTokens = 12;
    bool paddedPrompts = false;
    ParameterSync sync = ParameterSync::Exact; // BeforeInputGradient: module-backward hooks
    const std::vector<bool> *trainable = nullptr; // by FlowIndex parameter id; nullptr: all
};

struct ParameterGradient {
    int parameter = -1; // FlowIndex id
    GradientKind own;   // before the style's own sum
    GradientKind final; // after it
    int sums = 0;       // how often the style sums it
};

struct FlowResult {
    bool fails = false;      // some rank raises
    bool wrongOutput = false; // no rank raises and the output is not what one rank alone computes
    bool untracked = false;   // the description lost the output on its way: nothing is known
    bool right() const { return !fails && !wrongOutput && !untracked; }
    std::vector<FlowFinding> findings; // in order of the forward, then of the backward
    std::vector<ParameterGradient> gradients; // of the trainable parameters
};

class FlowIndex;

// Built once for a model and a plan, run for any number of ranks. Refers to both.
class LayoutFlow {
public:
    // model.flowKnown() must hold.
    LayoutFlow(const ModelDescription &model, const ResolvedPlan &plan);
    LayoutFlow(LayoutFlow &&) noexcept;
    ~LayoutFlow();

    FlowResult run(int tp, const FlowOptions &options) const;
    const FlowIndex &index() const { return *m_index; }

private:
    std::unique_ptr<const FlowIndex> m_index;
};

} // namespace tpscope
