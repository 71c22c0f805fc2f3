// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "exec/instructions.h"
#include "shard/boundary.h"

namespace tpscope {
namespace {

constexpr int none = Instruction::none;

// What stops the lowering; thrown inside this file only.
struct CannotLower {
    Error error;
};

std::string fullName(const Module &module, const std::string &parameter) {
    return module.name.empty() ? parameter : module.name + "." + parameter;
}

[[noreturn]] void refuse(ErrorCode code, std::string message) { throw CannotLower{{code, std::move(message), {}}}; }

bool isView(OpKind kind) {
    switch (kind) {
    case OpKind::ViewHeads:
    case OpKind::SingleHead:
    case OpKind::Transpose:
    case OpKind::MergeHeads:
    case OpKind::SliceTokens:
    case OpKind::Slice:
    case OpKind::FlattenTokens:
    case OpKind::BatchTokens:
    case OpKind::CausalMask: // built by the attention that needs one
        return true;
    default:
        return false;
    }
}

class Lowering {
public:
    Lowering(const ModelDescription &model, const ResolvedPlan &plan, const ShardLayout &layout,
             const LoweringOptions &options)
        : m_model(model), m_plan(plan), m_options(options) {
        for (const ParameterShard &shard : layout.parameters)
            m_shards.emplace(shard.name, &shard);
        for (const Tie &tie : model.tree.ties)
            m_sourceOf.emplace(tie.target, tie.source);
    }

    InstructionList run(const ShardLayout &layout);

private:
    // A call of one code object: its variables as slots, its plain arguments, the current elements of its loops.
    struct Frame {
        ModuleIndex self;
        std::unordered_map<Var, int> slots = {};
        std::unordered_map<Var, Attribute> constants = {};
        std::unordered_map<std::string, ModuleIndex> elements = {};
        std::vector<ModuleIndex> innermost = {}; // elements of the loops around, the last is the innermost
    };
    using Slots = std::vector<int>;
    using Constants = std::map<Var, Attribute>;

    Slots callModule(ModuleIndex index, const Slots &arguments, const Constants &constants);
    Slots enterForward(ModuleIndex index, Slots arguments, const Constants &constants);
    Slots callProgram(const std::string &id, ModuleIndex self, const Slots &arguments, const Constants &constants);
    void walk(const Body &body, Frame &frame);
    void operation(const Operation &operation, Frame &frame);
    void loop(const LoopModules &loop, Frame &frame);
    void select(const Operation &operation, Frame &frame);
    void store(const Slots &values, const std::vector<Var> &out, Frame &frame);
    Slots slotsOf(const std::vector<Var> &names, const Frame &frame) const;

    Boundary boundaryAt(ModuleIndex index) const;
    Slots dispatch(ModuleIndex index, Slots &arguments);
    int returnTokens(ModuleIndex index, int rows, int hidden, const Slots &dispatched);
    std::int64_t expertsOfRank(ModuleIndex index) const;
    const std::string &sourceOf(const std::string &parameter) const; // of a tied one: whose tensor it is
    void checkLocal(const Module &module, const std::string &parameter, const std::string &name) const;
    Instruction &emit(Step step, ModuleIndex module, Slots in);
    int emitOne(Step step, ModuleIndex module, int in);
    int parameterIndex(const Module &module, const std::string &parameter);
    int layerOf(ModuleIndex index) const;
    void markLastUses();

    const ModelDescription &m_model;
    const ResolvedPlan &m_plan;
    const LoweringOptions m_options;
    std::unordered_map<std::string, const ParameterShard *> m_shards;
    std::unordered_map<std::string, std::string> m_sourceOf;
    std::unordered_map<std::string, int> m_parameters;
    std::unordered_map<std::size_t, int> m_deferredBias; // by module: the bias AddBias takes, none without one
    std::unordered_set<int> m_growing; // slots whose size follows the context
    InstructionList m_list;
};

InstructionList Lowering::run(const ShardLayout &layout) {
    const auto &root = m_model.program(m_model.tree.root().forwardProgram);
    // Called with ids alone: masks, positions and cache are the executor's own.
    Slots arguments(root.inputs.size(), none);
    m_list.ids = arguments.at(0) = m_list.slotCount++;
    const Slots outputs = callModule(ModuleIndex(0), arguments, {});
    m_list.logits = outputs.at(0);
    if (m_options.fuse && !m_options.training)
        fuseProducts(m_model, layout, m_list);
    markLastUses();
    return std::move(m_list);
}

Lowering::Slots Lowering::callModule(ModuleIndex index, const Slots &arguments, const Constants &constants) {
    const Module &module = m_model.tree.at(index);
    if (!module.callProgram.empty())
        return callProgram(module.callProgram, index, arguments, constants);
    return enterForward(index, arguments, constants);
}

// nn.Module._call_impl and, inside of it, the forward that the style replaced.
Lowering::Slots Lowering::enterForward(ModuleIndex index, Slots arguments, const Constants &constants) {
    const Module &module = m_model.tree.at(index);
    const Boundary edge = boundaryAt(index);
    const bool hooked = edge.hooksParameters && m_options.training;
    if (hooked)
        arguments.at(0) = emitOne(Step::EnterHooked, index, arguments.at(0));
    if (edge.sumsInputGradient && m_options.training)
        for (std::size_t i = 0; i < arguments.size() && (i == 0 || edge.sumsEveryInput); ++i)
            if (arguments[i] != none)
                arguments[i] = emitOne(Step::SumInputGradient, index, arguments[i]);
    if (edge.splitsInput)
        arguments.at(0) = emitOne(Step::SplitInput, index, arguments.at(0));
    if (edge.dividesInput)
        arguments.at(0) = emitOne(Step::DivideInput, index, arguments.at(0));
    if (edge.defersBias)
        m_deferredBias.emplace(index.value, none);
    const int hidden = arguments.empty() ? none : arguments.front();
    const Slots dispatched = edge.dispatches ? dispatch(index, arguments) : Slots();
    Slots outputs = callProgram(module.forwardProgram, index, arguments, constants);
    if (edge.dispatches && m_options.training)
        outputs.at(0) = returnTokens(index, outputs.at(0), hidden, dispatched);
    else if (edge.reduces)
        outputs.at(0) = emitOne(Step::AllReduce, index, outputs.at(0));
    if (edge.gathers) {
        outputs.at(0) = emitOne(Step::AllGather, index, outputs.at(0));
        m_list.instructions.back().width = edge.gatheredWidth;
    }
    if (edge.defersBias && m_deferredBias.at(index.value) != none) {
        outputs.at(0) = emitOne(Step::AddBias, index, outputs.at(0));
        m_list.instructions.back().parameters = {m_deferredBias.at(index.value)};
    }
    if (edge.summedColumns > 0 && m_options.training) {
        outputs.at(0) = emitOne(Step::SumColumnGradient, index, outputs.at(0));
        m_list.instructions.back().width = edge.summedColumns;
    }
    if (hooked)
        outputs.at(0) = emitOne(Step::LeaveHooked, index, outputs.at(0));
    return outputs;
}

std::int64_t Lowering::expertsOfRank(ModuleIndex index) const {
    const Module &module = m_model.tree.at(index);
    const std::int64_t experts = module.integer("num_experts");
    return m_plan.tp > 1 && m_plan.dealsExperts(module) ? chunkOf(experts, m_plan.tp, Rank(0)).size() : experts;
}

// Changes the arguments to what this rank's experts work on. Returns the slots of DispatchTokens.
Lowering::Slots Lowering::dispatch(ModuleIndex index, Slots &arguments) {
    constexpr std::size_t statesIndicesScores = 3, routing = 3;
    const Module &module = m_model.tree.at(index);
    if (arguments.size() != statesIndicesScores)
        refuse(ErrorCode::CannotRun, "tokens cannot be dispatched at " + module.name + ": it is not called with hidden "
                                     "states, indices and weights of the experts; transformers raises there");
    const std::int64_t experts = expertsOfRank(index);
    const bool travel = m_options.training;
    Instruction &step = emit(travel ? Step::DispatchTokens : Step::OwnExperts, index,
                             travel ? arguments : Slots{arguments[1], arguments[2]});
    step.width = experts;
    for (std::size_t i = 0; i < (travel ? statesIndicesScores + routing : 2); ++i)
        step.out.push_back(m_list.slotCount++);
    const Slots out = step.out;
    std::copy_n(out.begin(), travel ? statesIndicesScores : 2, arguments.begin() + (travel ? 0 : 1));
    return out;
}

int Lowering::returnTokens(ModuleIndex index, int rows, int hidden, const Slots &dispatched) {
    Instruction &step = emit(Step::ReturnTokens, index, {rows, dispatched[3], dispatched[4], dispatched[5], hidden});
    step.out = {m_list.slotCount++};
    return step.out.front();
}

Boundary Lowering::boundaryAt(ModuleIndex index) const {
    // One rank shards nothing: transformers ignores the plan then.
    const ParallelStyle *style = m_plan.tp > 1 ? m_plan.styleOfModule(index) : nullptr;
    const Module &module = m_model.tree.at(index);
    const Placement *weight = nullptr;
    if (module.parameter("weight"))
        if (const auto shard = m_shards.find(sourceOf(fullName(module, "weight"))); shard != m_shards.end())
            weight = &shard->second->placement;
    auto edge = boundaryOf(style, module, m_model.config, weight);
    if (!edge)
        throw CannotLower{edge.error()};
    return *edge;
}

Lowering::Slots Lowering::callProgram(const std::string &id, ModuleIndex self, const Slots &arguments,
                                      const Constants &constants) {
    const auto found = m_model.programs.find(id);
    if (found == m_model.programs.end())
        refuse(ErrorCode::Unsupported, "the forward of " + m_model.tree.at(self).className + " is not described");
    const ForwardProgram &program = found->second;
    Frame frame{self};
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
        frame.slots[program.inputs[i]] = i < arguments.size() ? arguments[i] : none;
    frame.constants.insert(constants.begin(), constants.end());
    walk(program.body, frame);
    return slotsOf(program.outputs, frame);
}

Lowering::Slots Lowering::slotsOf(const std::vector<Var> &names, const Frame &frame) const {
    Slots slots;
    for (const Var &variable : names) {
        const auto found = frame.slots.find(variable);
        slots.push_back(found == frame.slots.end() ? none : found->second);
    }
    return slots;
}

void Lowering::store(const Slots &values, const std::vector<Var> &out, Frame &frame) {
    for (std::size_t i = 0; i < out.size(); ++i)
        frame.slots[out[i]] = i < values.size() ? values[i] : none;
}

void Lowering::walk(const Body &body, Frame &frame) {
    struct Visitor {
        Lowering &self;
        Frame &frame;
        void operator()(const Operation &node) const { self.operation(node, frame); }
        void operator()(const CallModule &node) const {
            std::optional<ModuleIndex> callee;
            if (const auto found = frame.elements.find(node.path); node.element && found != frame.elements.end())
                callee = found->second;
            else if (!node.element)
                callee = self.m_model.tree.resolve(frame.self, node.path);
            if (!callee)
                refuse(ErrorCode::Unsupported, "the description of " + self.m_model.className + " calls " + node.path +
                                                   ", which is no module");
            self.store(self.callModule(*callee, self.slotsOf(node.args, frame), node.constants), node.out, frame);
        }
        void operator()(const CallFunction &node) const {
            Constants constants(frame.constants.begin(), frame.constants.end());
            for (const auto &[name, value] : node.constants)
                constants.insert_or_assign(name, value);
            self.store(self.callProgram(node.program, frame.self, self.slotsOf(node.args, frame), constants), node.out,
                       frame);
        }
        void operator()(const CallForward &node) const {
            const Constants constants(frame.constants.begin(), frame.constants.end());
            self.store(self.enterForward(frame.self, self.slotsOf(node.args, frame), constants), node.out, frame);
        }
        void operator()(const LoopModules &node) const { self.loop(node, frame); }
        void operator()(const TryBlock &node) const { self.walk(node.body, frame); }
    };
    for (const Statement &statement : body)
        std::visit(Visitor{*this, frame}, statement.node);
}

void Lowering::loop(const LoopModules &loop, Frame &frame) {
    const auto list = m_model.tree.resolve(frame.self, loop.list);
    if (!list)
        refuse(ErrorCode::Unsupported, "the description of " + m_model.className + " loops over " + loop.list +
                                           ", which is no module");
    frame.innermost.push_back({});
    for (const ModuleIndex element : m_model.tree.at(*list).children) {
        frame.elements[loop.element] = frame.innermost.back() = element;
        walk(loop.body, frame);
    }
    frame.innermost.pop_back();
}

// A choice that is known before anything runs: by a plain argument, else an attribute of the loop's element or of self.
void Lowering::select(const Operation &operation, Frame &frame) {
    const auto by = operation.attributes.find("by");
    if (by == operation.attributes.end())
        refuse(ErrorCode::Unsupported, "a choice of " + m_model.className + " does not say what decides it");
    const auto &key = std::get<std::string>(by->second);
    const ModuleIndex owner = frame.innermost.empty() ? frame.self : frame.innermost.back();
    std::string value = m_model.tree.at(owner).text(key, m_model.tree.at(frame.self).text(key));
    if (const auto given = frame.constants.find(key); given != frame.constants.end())
        if (const auto *text = std::get_if<std::string>(&given->second))
            value = *text;
    for (std::size_t i = 0; i < operation.in.size(); ++i) {
        const auto choice = operation.attributes.find("choice" + std::to_string(i));
        const auto *text = choice == operation.attributes.end() ? nullptr : std::get_if<std::string>(&choice->second);
        if (text && *text == value)
            return store({slotsOf(operation.in, frame)[i]}, operation.out, frame);
    }
    refuse(ErrorCode::Unsupported, "no choice of " + m_model.className + " for " + key + " \"" + value + "\"");
}

void Lowering::operation(const Operation &operation, Frame &frame) {
    if (operation.kind == OpKind::Select)
        return select(operation, frame);
    const Module &self = m_model.tree.at(frame.self);
    const Slots in = slotsOf(operation.in, frame);
    if (!operation.onlyIf.empty() && !self.flag(operation.onlyIf, true))
        return store(in, operation.out, frame);
    std::vector<int> parameters;
    for (const std::string &parameter : operation.parameters)
        parameters.push_back(parameterIndex(self, parameter));
    // A style that sums partial products hides the bias from them and adds it once, after the sum.
    if (const auto deferred = m_deferredBias.find(frame.self.value); deferred != m_deferredBias.end())
        for (std::size_t i = 0; i < parameters.size(); ++i)
            if (operation.parameters[i] == "bias")
                deferred->second = std::exchange(parameters[i], none);
    Instruction &instruction = emit(Step::Operation, frame.self, in);
    instruction.operation = &operation;
    const ParallelStyle *style = m_plan.tp > 1 ? m_plan.styleOfModule(frame.self) : nullptr;
    instruction.distributed = style && style->tensors() == ParallelStyle::Tensors::Distributed;
    for (const GuardRead &read : operation.reads)
        if (const auto given = frame.constants.find(read.name);
            read.kind == GuardRead::Kind::Argument && given != frame.constants.end())
            if (const auto *text = std::get_if<std::string>(&given->second))
                instruction.argument = *text;
    instruction.parameters = std::move(parameters);
    if (operation.kind == OpKind::ExpertProduct) {
        instruction.width = expertsOfRank(frame.self);
        const ParallelStyle *own = m_plan.styleOfModule(frame.self);
        if (m_plan.tp > 1 && own && own->dispatchesTokens && !m_plan.dealsExperts(self) &&
            instruction.parameters.size() > 1)
            refuse(ErrorCode::CannotRun, "in the forward of " + self.name + " an index is out of bounds: the number of "
                                         "experts elsewhere, in a bias that holds all of them; transformers raises there");
    }
    // What grows with the context lies elsewhere in each step, so a view of it is no longer one of the first step's.
    const bool grows = operation.kind == OpKind::DropHead ||
                       (operation.kind != OpKind::Attend &&
                        std::ranges::any_of(in, [&](int slot) { return m_growing.contains(slot); }));
    instruction.isView = isView(operation.kind) && !grows;
    for (std::size_t i = 0; i < operation.out.size(); ++i)
        instruction.out.push_back(m_list.slotCount++);
    if (grows)
        m_growing.insert(instruction.out.begin(), instruction.out.end());
    store(instruction.out, operation.out, frame);
}

int Lowering::parameterIndex(const Module &module, const std::string &parameter) {
    if (!module.parameter(parameter) && !module.buffer(parameter))
        return none;
    const std::string name = sourceOf(fullName(module, parameter));
    checkLocal(module, parameter, name);
    const auto [found, isNew] = m_parameters.emplace(name, static_cast<int>(m_list.parameters.size()));
    if (isNew)
        m_list.parameters.push_back(name);
    return found->second;
}

const std::string &Lowering::sourceOf(const std::string &parameter) const {
    const auto source = m_sourceOf.find(parameter);
    return source == m_sourceOf.end() ? parameter : source->second;
}

// A sharded parameter is a DTensor upstream; only some styles hand its local shard to the forward. With gradients the
// styles of linear modules wrap the input as a DTensor, which a plain weight then meets.
void Lowering::checkLocal(const Module &module, const std::string &parameter, const std::string &name) const {
    const auto shard = m_shards.find(name);
    const auto index = m_model.tree.indexOf(module.name);
    if (shard == m_shards.end() || !index || m_plan.tp == 1)
        return;
    const ParallelStyle *style = m_plan.styleOfModule(*index);
    const bool plain = shard->second->placement.kind == PlacementKind::PlainTensor;
    const bool distributed = style && style->tensors() == ParallelStyle::Tensors::Distributed && !style->tokenShards;
    const bool wrapsInput =
        distributed || (m_options.training && style && style->requires_ != ParallelStyle::Requires::Nothing);
    if (plain ? wrapsInput : !(style && style->localTensors))
        refuse(ErrorCode::CannotRun, "in the forward of " + module.name + " a plain tensor and a DTensor meet: " +
                                         (plain ? "its input, and its plain parameter "
                                                : "its input is plain, not so its parameter ") +
                                         parameter + "; transformers raises there");
}

Instruction &Lowering::emit(Step step, ModuleIndex module, Slots in) {
    Instruction instruction;
    instruction.step = step;
    instruction.module = module;
    instruction.eventModule = static_cast<std::int32_t>(module.value);
    instruction.layer = layerOf(module);
    instruction.in = std::move(in);
    m_list.instructions.push_back(std::move(instruction));
    return m_list.instructions.back();
}

int Lowering::emitOne(Step step, ModuleIndex module, int in) {
    Instruction &instruction = emit(step, module, {in});
    instruction.out = {m_list.slotCount++};
    instruction.isView = step == Step::SplitInput;
    return instruction.out.front();
}

int Lowering::layerOf(ModuleIndex index) const {
    for (std::optional<ModuleIndex> at = index; at; at = m_model.tree.at(*at).parent)
        if (const Module &module = m_model.tree.at(*at); module.attributes.contains("layer_idx"))
            return static_cast<int>(module.integer("layer_idx"));
    return -1;
}

void Lowering::markLastUses() {
    std::vector<char> used(static_cast<std::size_t>(m_list.slotCount), 0);
    used[static_cast<std::size_t>(m_list.logits)] = 1; // the caller reads it
    for (Instruction &instruction : m_list.instructions | std::views::reverse)
        for (const Slots *slots : {&instruction.in, &instruction.out})
            for (const int slot : *slots)
                if (slot != none && !std::exchange(used[static_cast<std::size_t>(slot)], char{1}))
                    instruction.lastUses.push_back(slot);
}

} // namespace

Result<InstructionList> lower(const ModelDescription &model, const ResolvedPlan &plan, const ShardLayout &layout,
                              const LoweringOptions &options) {
    if (!model.flowKnown())
        return fail(ErrorCode::Unsupported, "the forward of " + model.modelType + " is not described");
    try {
        return Lowering(model, plan, layout, options).run(layout);
    } catch (const CannotLower &stopped) {
        return tl::unexpected(stopped.error);
    }
}

} // namespace tpscope
