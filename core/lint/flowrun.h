// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/flowindex.h"
#include "lint/layoutflow.h"

namespace tpscope {

using Values = std::vector<Value>;

// What a module's own operations see of its own parameters.
enum class OwnTensors {
    AsPlaced,   // sharded ones are DTensors
    Local,      // local tensors, whole ones whole
    Distributed // all must be DTensors; then the result is that of local tensors
};

// One walk over the programs for one number of ranks. Single use, one thread.
class FlowRun {
public:
    FlowRun(const FlowIndex &index, int tp, const FlowOptions &options);
    FlowResult run();

private:
    struct Frame {
        ModuleIndex self;
        ModuleIndex element; // of the loop
        Values variables;
        OwnTensors own = OwnTensors::AsPlaced;
        bool hidesBias = false;         // the style adds it later
        bool sumsInputGradient = false; // the style sums it: a share is fine
        bool dispatched = false;        // runs on the tokens of this rank's experts
        std::optional<FlowSide> beforeSplit; // the input as it came, where the style took its slice of it
    };
    // A parameter as an operation meets it.
    struct Operand {
        const FlowParameter *parameter = nullptr;
        bool distributed = false; // a DTensor in this operation
        Layout rows;              // all dimensions but the last two are whole; 1-D: unused
        Layout columns;           // the last dimension
        bool byExpert = false;    // cut along the first of its dimensions, the experts
        bool onOneRank = false;   // every rank has it, and one rank computes with it
        bool whole() const { return columns.isFull() && (!rows.tracked() || rows.isFull()); }
    };

    // Programs (flowrun.cpp).
    Values runProgram(int program, const Values &arguments, const Frame &like);
    void runBody(const std::vector<FlowStep> &body, Frame &frame);
    void runStep(const FlowStep &step, Frame &frame);
    void runLoop(const FlowStep &step, Frame &frame);
    void judgeOutput(const Values &outputs);
    void judgeGradients(FlowResult &result);

    // Modules and their styles (stylewrapper.cpp).
    Values callModule(ModuleIndex module, Values arguments);
    Values enterForward(ModuleIndex module, Values arguments);
    bool takeInput(ModuleIndex module, const ParallelStyle &style, Values &arguments, Frame &frame);
    bool giveOutput(ModuleIndex module, const ParallelStyle &style, const Frame &frame, Values &outputs);
    void countSums(ModuleIndex module, const ParallelStyle &style, const Values &arguments);
    bool gatherPieces(ModuleIndex module, Value &value); // a sequence cannot be put together again
    bool dispatch(ModuleIndex module, Values &arguments, Frame &frame);
    bool returnTokens(ModuleIndex module, Value &output);
    Value splitInput(const Value &value);
    Value reduce(ModuleIndex module, const Value &value);
    Value gather(ModuleIndex module, const Value &value);
    Value addBias(ModuleIndex module, const Value &value);
    void sumColumns(ModuleIndex module, Value &value);
    void sumInputGradient(ModuleIndex module, Value &value);

    // Operations (operations.cpp, products.cpp, attention.cpp): outputs of one.
    Values operate(const Operation &operation, std::string_view label, const Values &in, const Frame &frame);
    Values computed(const Operation &operation, std::string_view shown, const Values &in, const Frame &frame);
    Value linear(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    bool joinBias(Value &y, const Operand &bias, bool claimed, std::string_view label, const Frame &frame);
    void productGradient(const Value &x, const Value &y, const Operand &weight, const Operand *bias, const Frame &frame);
    Value embedding(const Operation &operation, std::string_view label, const Value &ids, const Frame &frame);
    Value norm(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    void normGradient(const Value &x, const Value &y, const Operand *weight, const Operand *bias);
    Value elementwise(std::string_view label, const Value &x, const Frame &frame);
    Value combine(OpKind kind, std::string_view label, const Value &a, const Value &b, const Frame &frame);
    Values route(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    bool choosesAmongFew(const Operation &operation, std::string_view label, const Operand &weight, Value &scores,
                         const Frame &frame);
    bool meetsExperts(const Operation &operation, std::string_view label, Value &y, const Frame &frame);
    Value expertProduct(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    Value interleavedGlu(std::string_view label, const Value &x, const Frame &frame);
    Value combineExperts(std::string_view label, const Value &x, const Value &scores, const Frame &frame);
    Value slicePositions(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    Value viewHeads(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    Layout resizedHeads(const Layout &layout, std::int64_t from, std::int64_t to);
    Value sliceHeads(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    Value concat(std::string_view label, const Values &in, const Frame &frame);
    Value convolve(const Operation &operation, std::string_view label, const Value &x, const Frame &frame);
    Value deltaRule(const Operation &operation, std::string_view label, const Values &in, const Frame &frame);
    Value spreadTokens(std::string_view label, const Value &x, const Value &scores, const Frame &frame);
    Value catHeads(std::string_view label, const Value &a, const Value &b, const Frame &frame);
    Value attend(const Operation &operation, std::string_view label, const Values &in, const Frame &frame);
    bool meetSinks(const Operation &operation, std::string_view label, const Value &q, Value &y, std::int64_t valueDim,
                   const Frame &frame);
    void attentionGradient(const Value &y, const Values &in, const std::array<bool, 3> &met, std::string_view label,
                           std::vector<FlowSide> sides, ModuleIndex module);
    void joinScales(Value &y, const Value &q, const Value &k, const Value &v, std::string_view label,
                    const Frame &frame);
    Values select(const Operation &operation, const Values &in, const Frame &frame);

    // The parameter as the frame shows it. Nothing: the module has none of that name.
    std::optional<Operand> operand(std::string_view name, const Frame &frame);
    // False (and an error): a DTensor and a plain tensor meet.
    bool compatible(const Value &x, const Operand &operand, std::string_view label, const Frame &frame);

    Layout full(std::int64_t extent);
    Layout chunked(std::int64_t extent, int groups);
    int newSlot();
    int parameterSlot(int id) const { return id; }
    bool needsGradients() const { return m_options.gradients; }
    bool trains(int id) const { return !m_options.trainable || (*m_options.trainable)[static_cast<std::size_t>(id)]; }

    // Findings. The same cause at the same place of another layer is one finding. Returns its index.
    int report(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides,
               std::string_view parameter = {});
    static Value behindError();
    Value fails(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides,
                std::string_view parameter = {});
    void spoil(Value &value, FlowCause cause, ModuleIndex module, std::string_view operation,
               std::vector<FlowSide> sides, std::string_view parameter = {});
    // The layout of a value does not fit: its own fault, or that of what broke it before.
    void misfit(Value &value, const Value &misfitting, FlowCause cause, ModuleIndex module,
                std::string_view operation, std::vector<FlowSide> sides);
    int suspect(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides);
    void confirm(int finding);
    // A value off by a factor is used where that matters.
    void spoilScaled(Value &value, const Value &scaled, std::string_view label, const Frame &frame);
    void spoilPartial(Value &value, const Value &partial, std::string_view label, const Frame &frame);
    static std::vector<FlowSide> side(const Value &value, std::string role, ModuleIndex fallback);

    const FlowIndex &m_index;
    const int m_tp;
    const FlowOptions &m_options;
    GradientTape m_tape;
    std::vector<int> m_sums; // by parameter id
    std::vector<FlowFinding> m_findings;
    bool m_fails = false;
    bool m_wrong = false;
    bool m_untracked = false; // no logits came out
    std::map<std::pair<std::int64_t, int>, Layout> m_layouts; // (extent, groups); groups 0: full
};

} // namespace tpscope
