// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/programtable.h"

namespace tpscope {
namespace {

constexpr const char *wrapperFrame = "tp_forward@tensor_parallel.py";

Statement transform(const Var &value, bool exists, std::string label) {
    Operation operation;
    operation.kind = OpKind::Select;
    operation.in = {value};
    operation.out = {value};
    operation.graphOps = exists ? 1 : 0;
    return {std::move(operation), std::move(label)};
}

} // namespace

ProgramTable::ProgramTable(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks)
    : m_model(model), m_plan(plan), m_hooks(hooks), m_forwards(model.tree.modules.size(), nullptr) {
}

const Callable &ProgramTable::program(const std::string &id) {
    const Callable *&known = m_byProgram[id];
    if (!known) {
        const ForwardProgram &found = m_model.program(id);
        const bool shared = !found.codeObject.empty();
        m_callables.push_back(
            {&found, nullptr, shared ? found.codeObject : id, shared ? found.frame : id});
        known = &m_callables.back();
    }
    return *known;
}

const Callable &ProgramTable::forwardOf(ModuleIndex module) {
    const Callable *&known = m_forwards[module.value];
    if (!known) {
        known = &program(m_model.tree.at(module).forwardProgram);
        const ParallelStyle *style = m_plan.tp > 1 ? m_plan.styleOfModule(module) : nullptr;
        if (style && (!style->hooksParameters() || m_hooks == HookMode::PostAccumulateGrad))
            known = &wrapped(*style, *known);
    }
    return *known;
}

const Callable &ProgramTable::wrapped(const ParallelStyle &style, const Callable &inner) {
    const Callable *&known = m_byStyle[{&style, &inner}];
    if (known)
        return *known;
    const ForwardProgram &forward = *inner.program;
    ForwardProgram wrapper{std::string(style.name) + "/" + forward.id,
                           wrapperFrame,
                           forward.inputs,
                           forward.outputs,
                           {},
                           false,
                           {}};
    Statement call{CallFunction{forward.id, forward.inputs, forward.outputs}, forward.id};
    // Styles that swap in local tensors do so in a generator context manager, which no frame can
    // resume in.
    if (style.localTensors)
        call = {TryBlock{{std::move(call)}}, forward.id};
    const bool input = style.input != ParallelStyle::Input::None;
    const bool output = style.output != ParallelStyle::Output::None;
    wrapper.body = {transform(forward.inputs.empty() ? Var() : forward.inputs.front(), input,
                              "input of the style"),
                    std::move(call),
                    transform(forward.outputs.empty() ? Var() : forward.outputs.front(), output,
                              "output of the style")};
    m_wrappers.push_back(std::move(wrapper));
    m_callables.push_back(
        {&m_wrappers.back(), &style, wrapperFrame, "tp_forward of " + forward.id});
    known = &m_callables.back();
    return *known;
}

} // namespace tpscope
