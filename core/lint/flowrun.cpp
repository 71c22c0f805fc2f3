// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/flowrun.h"

#include <algorithm>

namespace tpscope {
namespace {

// Nothing an operation does could tell the two apart.
bool alike(const Value &a, const Value &b) {
    return a.power == b.power && a.wrong == b.wrong && a.unknown == b.unknown && a.form == b.form &&
           a.headDim == b.headDim && a.slidingMask == b.slidingMask && a.requiresGradient == b.requiresGradient &&
           a.layout == b.layout && a.contracted == b.contracted;
}

} // namespace

FlowRun::FlowRun(const FlowIndex &index, int tp, const FlowOptions &options)
    : m_index(index), m_tp(tp), m_options(options), m_sums(index.parameterNames().size(), 0) {
    // A parameter's slot is its id.
    if (options.gradients)
        for (std::size_t i = 0; i < m_sums.size(); ++i)
            m_tape.newSlot();
}

FlowResult FlowRun::run() {
    FlowResult result;
    // On one rank upstream applies no plan at all.
    if (m_tp <= 1)
        return result;
    const ModuleIndex root(0);
    Value ids;
    ids.layout = full(1);
    ids.indices = true;
    const int program = m_index.forwardProgram(root);
    Values arguments(m_index.program(program).inputs.size());
    if (!arguments.empty())
        arguments.front() = ids;
    const Values outputs = callModule(root, std::move(arguments));
    judgeOutput(outputs);
    result.fails = m_fails;
    result.wrongOutput = m_wrong && !m_fails;
    result.untracked = m_untracked && !m_fails;
    if (m_options.gradients && !m_fails) {
        if (!outputs.empty() && outputs.front().gradient >= 0)
            m_tape.set(outputs.front().gradient, GradientKind::complete());
        m_tape.backward();
        judgeGradients(result);
    }
    result.findings = std::move(m_findings);
    return result;
}

void FlowRun::judgeOutput(const Values &outputs) {
    m_untracked = outputs.empty() || outputs.front().unknown || !outputs.front().layout.tracked();
    if (m_untracked)
        return;
    Value logits = outputs.front();
    const ModuleIndex producer = logits.origin.value_or(ModuleIndex(0));
    Frame frame;
    frame.self = producer;
    if (!logits.layout.isFull())
        misfit(logits, logits, FlowCause::PartOfOutput, producer, "output", side(logits, "output", producer));
    else if (logits.partial())
        spoilPartial(logits, logits, "output", frame);
    else if (logits.power != 0)
        spoilScaled(logits, logits, "output", frame);
    m_wrong = m_wrong || logits.wrong;
}

void FlowRun::judgeGradients(FlowResult &result) {
    for (std::size_t i = 0; i < m_sums.size(); ++i) {
        const int id = static_cast<int>(i);
        ParameterGradient gradient{id, m_tape.at(id), m_tape.at(id), m_sums[i]};
        if (!trains(id) || gradient.own.none())
            continue;
        for (int s = 0; s < gradient.sums; ++s)
            gradient.final = allReduced(gradient.final);
        if (result.wrongOutput) // another loss has other gradients
            gradient.final = GradientKind::wrongBecause(-1);
        result.gradients.push_back(gradient);
        if (gradient.final.right() || result.wrongOutput)
            continue;
        const std::string &name = m_index.parameterNames()[i];
        const std::size_t dot = name.rfind('.');
        const ModuleIndex owner = m_index.model().tree.indexOf(dot == std::string::npos ? "" : name.substr(0, dot))
                                      .value_or(ModuleIndex(0));
        const std::string_view local = dot == std::string::npos ? std::string_view(name)
                                                                : std::string_view(name).substr(dot + 1);
        int finding = gradient.own.cause;
        if (gradient.own.right())
            finding = report(FlowCause::GradientRepeated, owner, "backward", {}, local);
        else if (finding < 0)
            finding = report(gradient.own.state == GradientKind::State::Partial && gradient.sums > 0
                                 ? FlowCause::GradientRepeated
                                 : FlowCause::GradientShare,
                             owner, "backward", {}, local);
        confirm(finding);
        m_findings[static_cast<std::size_t>(finding)].parameters.push_back(name);
    }
}

// --- programs -----------------------------------------------------------------------------------------------------

Values FlowRun::runProgram(int program, const Values &arguments, const Frame &like) {
    const FlowProgram &code = m_index.program(program);
    Frame frame = like;
    frame.variables.assign(static_cast<std::size_t>(code.variables), Value{});
    for (std::size_t i = 0; i < code.inputs.size() && i < arguments.size(); ++i)
        if (code.inputs[i] >= 0)
            frame.variables[static_cast<std::size_t>(code.inputs[i])] = arguments[i];
    runBody(code.body, frame);
    Values outputs;
    for (const int variable : code.outputs)
        outputs.push_back(variable >= 0 ? frame.variables[static_cast<std::size_t>(variable)] : Value{});
    return outputs;
}

void FlowRun::runBody(const std::vector<FlowStep> &body, Frame &frame) {
    for (const FlowStep &step : body) {
        if (m_fails && m_options.stopAtError)
            return;
        runStep(step, frame);
    }
}

void FlowRun::runStep(const FlowStep &step, Frame &frame) {
    if (step.kind == FlowStep::Kind::Loop)
        return runLoop(step, frame);
    Values in;
    in.reserve(step.in.size());
    for (const int variable : step.in)
        in.push_back(variable >= 0 ? frame.variables[static_cast<std::size_t>(variable)] : Value{});
    Values out;
    switch (step.kind) {
    case FlowStep::Kind::Operation: out = operate(*step.operation, step.label, in, frame); break;
    case FlowStep::Kind::Module:
        if (const auto child = m_index.child(frame.self, step.path))
            out = callModule(*child, std::move(in));
        break;
    case FlowStep::Kind::Element: out = callModule(frame.element, std::move(in)); break;
    case FlowStep::Kind::Function: out = runProgram(step.program, in, frame); break;
    case FlowStep::Kind::Forward: out = enterForward(frame.self, std::move(in)); break;
    case FlowStep::Kind::Loop: break;
    }
    for (std::size_t i = 0; i < step.out.size() && i < out.size(); ++i)
        if (step.out[i] >= 0)
            frame.variables[static_cast<std::size_t>(step.out[i])] = std::move(out[i]);
}

void FlowRun::runLoop(const FlowStep &step, Frame &frame) {
    const auto list = m_index.child(frame.self, step.path);
    if (!list)
        return;
    std::map<std::uint64_t, Values> seen; // by kind of layer: the variables it last met
    for (const ModuleIndex element : m_index.module(*list).children) {
        // Layers of one kind do the same to the same.
        if (!m_options.everyLayer) {
            Values &before = seen[m_index.signature(element)];
            if (std::ranges::equal(before, frame.variables, alike))
                continue;
            before = frame.variables;
        }
        frame.element = element;
        runBody(step.body, frame);
    }
}

// --- layouts and findings -------------------------------------------------------------------------------------------

Layout FlowRun::full(std::int64_t extent) {
    Layout &layout = m_layouts[{extent, 0}];
    if (!layout.tracked())
        layout = Layout::full(extent, m_tp);
    return layout;
}

Layout FlowRun::chunked(std::int64_t extent, int groups) {
    Layout &layout = m_layouts[{extent, groups}];
    if (!layout.tracked())
        layout = Layout::chunked(extent, m_tp, groups);
    return layout;
}

int FlowRun::newSlot() { return needsGradients() ? m_tape.newSlot() : -1; }

int FlowRun::report(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides,
                    std::string_view parameter) {
    const std::string place = genericName(m_index.module(module).name);
    const std::string from = sides.empty() ? place : genericName(m_index.module(sides.front().module).name);
    for (std::size_t i = 0; i < m_findings.size(); ++i) {
        const FlowFinding &known = m_findings[i];
        if (known.cause == cause && known.parameter == parameter && known.operation == operation &&
            genericName(m_index.module(known.module).name) == place &&
            (known.sides.empty() || sides.empty() ||
             genericName(m_index.module(known.sides.front().module).name) == from))
            return static_cast<int>(i);
    }
    FlowFinding finding;
    finding.cause = cause;
    finding.module = module;
    finding.operation = operation;
    finding.sides = std::move(sides);
    finding.parameter = parameter;
    m_findings.push_back(std::move(finding));
    return static_cast<int>(m_findings.size()) - 1;
}

Value FlowRun::fails(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides,
                     std::string_view parameter) {
    const int finding = report(cause, module, operation, std::move(sides), parameter);
    m_findings[static_cast<std::size_t>(finding)].stops = true;
    m_fails = true;
    return behindError();
}

Value FlowRun::behindError() {
    Value value;
    value.unknown = true;
    return value;
}

void FlowRun::spoil(Value &value, FlowCause cause, ModuleIndex module, std::string_view operation,
                    std::vector<FlowSide> sides, std::string_view parameter) {
    report(cause, module, operation, std::move(sides), parameter);
    value.wrong = true;
}

void FlowRun::misfit(Value &value, const Value &misfitting, FlowCause cause, ModuleIndex module,
                     std::string_view operation, std::vector<FlowSide> sides) {
    if (misfitting.brokenBy < 0)
        return spoil(value, cause, module, operation, std::move(sides));
    confirm(misfitting.brokenBy);
    value.wrong = true;
    value.brokenBy = -1;
}

int FlowRun::suspect(FlowCause cause, ModuleIndex module, std::string_view operation, std::vector<FlowSide> sides) {
    const std::size_t before = m_findings.size();
    const int finding = report(cause, module, operation, std::move(sides));
    if (m_findings.size() > before)
        m_findings.back().harmless = true;
    return finding;
}

void FlowRun::confirm(int finding) {
    if (finding >= 0)
        m_findings[static_cast<std::size_t>(finding)].harmless = false;
}

void FlowRun::spoilScaled(Value &value, const Value &scaled, std::string_view label, const Frame &frame) {
    if (scaled.pending >= 0) {
        confirm(scaled.pending);
        value.wrong = true;
    } else {
        spoil(value, FlowCause::OperandScale, frame.self, label, side(scaled, "operand", frame.self));
    }
    value.power = 0;
    value.pending = -1;
}

void FlowRun::spoilPartial(Value &value, const Value &partial, std::string_view label, const Frame &frame) {
    spoil(value, FlowCause::PartialUsed, frame.self, label, side(partial, "operand", frame.self));
    value.contracted = Layout();
}

std::vector<FlowSide> FlowRun::side(const Value &value, std::string role, ModuleIndex fallback) {
    if (!value.layout.tracked())
        return {};
    return {{value.origin.value_or(fallback), value.layout, std::move(role)}};
}

// --- entry ------------------------------------------------------------------------------------------------------

LayoutFlow::LayoutFlow(const ModelDescription &model, const ResolvedPlan &plan)
    : m_index(std::make_unique<const FlowIndex>(model, plan)) {}
LayoutFlow::LayoutFlow(LayoutFlow &&) noexcept = default;
LayoutFlow::~LayoutFlow() = default;

FlowResult LayoutFlow::run(int tp, const FlowOptions &options) const { return FlowRun(*m_index, tp, options).run(); }

} // namespace tpscope
