// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/flowindex.h"

#include <algorithm>
#include <functional>
#include <map>

namespace tpscope {
namespace {

// Gives the variables of one program numbers.
class Compiler {
public:
    Compiler(FlowProgram &program, const std::function<int(const std::string &)> &programId)
        : m_program(program), m_programId(programId) {}

    int variable(const Var &name) {
        if (name.empty())
            return -1;
        const auto [entry, added] = m_variables.emplace(name, m_program.variables);
        if (added)
            ++m_program.variables;
        return entry->second;
    }
    std::vector<int> variables(const std::vector<Var> &names) {
        std::vector<int> out;
        for (const Var &name : names)
            out.push_back(variable(name));
        return out;
    }
    void compile(const Body &body, std::vector<FlowStep> &steps) {
        for (const Statement &statement : body)
            compile(statement, steps);
    }

private:
    void compile(const Statement &statement, std::vector<FlowStep> &steps) {
        if (const auto *block = std::get_if<TryBlock>(&statement.node))
            return compile(block->body, steps);
        FlowStep step;
        step.label = statement.label;
        if (const auto *operation = std::get_if<Operation>(&statement.node)) {
            step.operation = operation;
            step.in = variables(operation->in);
            step.out = variables(operation->out);
        } else if (const auto *call = std::get_if<CallModule>(&statement.node)) {
            step.kind = call->element ? FlowStep::Kind::Element : FlowStep::Kind::Module;
            step.path = call->path;
            step.in = variables(call->args);
            step.out = variables(call->out);
        } else if (const auto *function = std::get_if<CallFunction>(&statement.node)) {
            step.kind = FlowStep::Kind::Function;
            step.program = m_programId(function->program);
            step.in = variables(function->args);
            step.out = variables(function->out);
        } else if (const auto *forward = std::get_if<CallForward>(&statement.node)) {
            step.kind = FlowStep::Kind::Forward;
            step.in = variables(forward->args);
            step.out = variables(forward->out);
        } else if (const auto *loop = std::get_if<LoopModules>(&statement.node)) {
            step.kind = FlowStep::Kind::Loop;
            step.path = loop->list;
            compile(loop->body, step.body);
        }
        steps.push_back(std::move(step));
    }

    FlowProgram &m_program;
    const std::function<int(const std::string &)> &m_programId;
    std::map<Var, int> m_variables;
};

void mix(std::uint64_t &hash, std::uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

std::uint64_t hashOf(const Attribute &attribute) {
    return std::visit([](const auto &value) { return std::hash<std::decay_t<decltype(value)>>{}(value); }, attribute);
}

std::string fullName(const Module &module, const std::string &parameter) {
    return module.name.empty() ? parameter : module.name + "." + parameter;
}

} // namespace

FlowIndex::FlowIndex(const ModelDescription &model, const ResolvedPlan &plan)
    : m_model(model), m_plan(plan), m_modules(model.tree.modules.size()) {
    for (std::size_t i = 0; i < m_modules.size(); ++i) {
        const Module &module = model.tree.modules[i];
        ModuleEntry &entry = m_modules[i];
        entry.style = plan.styleOfModule(ModuleIndex(i));
        entry.dealsExperts = plan.dealsExperts(module);
        if (!module.callProgram.empty())
            entry.call = programId(module.callProgram);
        if (!module.forwardProgram.empty())
            entry.forward = programId(module.forwardProgram);
        addParameters(ModuleIndex(i));
    }
    tieParameters();
    // Parents stand before their children, so backwards each module finds its children signed.
    for (std::size_t i = m_modules.size(); i-- > 0;)
        sign(ModuleIndex(i));
}

int FlowIndex::programId(const std::string &id) {
    const auto found = std::ranges::find(m_programNames, id);
    if (found != m_programNames.end())
        return static_cast<int>(found - m_programNames.begin());
    const int number = static_cast<int>(m_programs.size());
    m_programNames.push_back(id);
    m_programs.emplace_back();
    FlowProgram program;
    const std::function<int(const std::string &)> inner = [this](const std::string &name) { return programId(name); };
    Compiler compiler(program, inner);
    const ForwardProgram &source = m_model.program(id);
    program.inputs = compiler.variables(source.inputs);
    compiler.compile(source.body, program.body);
    program.outputs = compiler.variables(source.outputs);
    m_programs[static_cast<std::size_t>(number)] = std::move(program);
    return number;
}

void FlowIndex::addParameters(ModuleIndex index) {
    const Module &module = m_model.tree.at(index);
    ModuleEntry &entry = m_modules[index.value];
    for (const Parameter &parameter : module.parameters) {
        FlowParameter own;
        own.name = parameter.name;
        own.shape = &parameter.shape;
        const std::string name = fullName(module, parameter.name);
        own.placement = placementOf(m_plan.styleOfParameter(name), parameter.name, parameter.shape);
        own.groups = groupsHeld(parameter, own.placement);
        if (entry.style && entry.style->tokenShards && !own.distributed())
            own.placement.kind = PlacementKind::Replicate;
        own.id = static_cast<int>(m_parameterNames.size());
        m_parameterNames.push_back(name);
        entry.parameters.push_back(own);
    }
}

// Upstream ties after sharding: the target becomes the source's tensor, whatever the plan says of it.
void FlowIndex::tieParameters() {
    for (const Tie &tie : m_model.tree.ties) {
        const auto target = std::ranges::find(m_parameterNames, tie.target);
        const auto source = std::ranges::find(m_parameterNames, tie.source);
        if (target == m_parameterNames.end() || source == m_parameterNames.end())
            continue;
        const int targetId = static_cast<int>(target - m_parameterNames.begin());
        const int sourceId = static_cast<int>(source - m_parameterNames.begin());
        const FlowParameter *from = nullptr;
        for (ModuleEntry &entry : m_modules)
            for (FlowParameter &parameter : entry.parameters)
                if (parameter.id == sourceId)
                    from = &parameter;
        for (ModuleEntry &entry : m_modules)
            for (FlowParameter &parameter : entry.parameters)
                if (parameter.id == targetId && from) {
                    parameter.id = sourceId;
                    parameter.placement = from->placement;
                    parameter.groups = from->groups;
                }
    }
}

void FlowIndex::sign(ModuleIndex index) {
    const Module &module = m_model.tree.at(index);
    ModuleEntry &entry = m_modules[index.value];
    std::uint64_t hash = std::hash<std::string>{}(module.className);
    mix(hash, static_cast<std::uint64_t>(entry.call + 1));
    mix(hash, static_cast<std::uint64_t>(entry.forward + 1));
    mix(hash, std::hash<const void *>{}(entry.style));
    mix(hash, entry.dealsExperts);
    for (const FlowParameter &parameter : entry.parameters) {
        mix(hash, static_cast<std::uint64_t>(parameter.placement.kind));
        mix(hash, static_cast<std::uint64_t>((parameter.placement.dim * 8 + parameter.placement.splitFactor) * 8 + parameter.groups));
        for (const std::int64_t size : *parameter.shape)
            mix(hash, static_cast<std::uint64_t>(size));
    }
    // layer_idx is what layers of one kind differ in; no rule of the flow reads it.
    for (const auto &[key, value] : module.attributes)
        if (key != "layer_idx") {
            mix(hash, std::hash<std::string>{}(key));
            mix(hash, hashOf(value));
        }
    for (const ModuleIndex child : module.children)
        mix(hash, m_modules[child.value].signature);
    entry.signature = hash;
}

std::optional<ModuleIndex> FlowIndex::child(ModuleIndex index, std::string_view path) const {
    ModuleIndex at = index;
    while (!path.empty()) {
        const std::size_t dot = path.find('.');
        const std::string_view name = path.substr(0, dot);
        const auto &children = m_model.tree.at(at).children;
        const auto found = std::ranges::find_if(
            children, [&](ModuleIndex c) { return m_model.tree.at(c).localName == name; });
        if (found == children.end())
            return std::nullopt;
        at = *found;
        path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
    }
    return at;
}

const FlowParameter *FlowIndex::parameter(ModuleIndex index, std::string_view name) const {
    if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
        const auto owner = child(index, name.substr(0, dot));
        return owner ? parameter(*owner, name.substr(dot + 1)) : nullptr;
    }
    const auto &own = m_modules[index.value].parameters;
    const auto found = std::ranges::find(own, name, &FlowParameter::name);
    return found == own.end() ? nullptr : &*found;
}

} // namespace tpscope
