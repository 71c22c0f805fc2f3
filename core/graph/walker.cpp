// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/walker.h"

namespace tpscope {
namespace {

template <typename... Handlers> struct Overloaded : Handlers... {
    using Handlers::operator()...;
};

} // namespace

Walker::Walker(const ModelDescription &model, ProgramTable &programs, const ShapeFlow &shapes)
    : m_model(model), m_programs(programs), m_shapes(shapes) {}

void Walker::enteringModule(Frame &, const std::string &, ModuleIndex) {}

void Walker::operation(const Operation &operation, Frame &frame) {
    if (const ParallelStyle *style = frame.callable->style) {
        const Var &variable = operation.out.front();
        const bool first =
            &operation == std::get_if<Operation>(&frame.callable->program->body.front().node);
        const TracedValue &value = frame.get(variable);
        frame.set(variable, first ? m_shapes.styleInput(*style, value)
                                  : m_shapes.styleOutput(*style, frame.self, value));
        return;
    }
    if (!operation.onlyIf.empty() && !m_model.tree.at(frame.self).flag(operation.onlyIf, true)) {
        for (std::size_t i = 0; i < operation.out.size() && i < operation.in.size(); ++i)
            frame.set(operation.out[i], frame.get(operation.in[i]));
        return;
    }
    std::vector<TracedValue> values = m_shapes.results(operation, frame);
    for (std::size_t i = 0; i < operation.out.size(); ++i)
        frame.set(operation.out[i], std::move(values[i]));
}

bool Walker::body(const Body &body, std::size_t begin, std::size_t end, Frame &frame) {
    for (std::size_t i = begin; i < end; ++i)
        if (!statement(body[i], frame))
            return false;
    return true;
}

bool Walker::statement(const Statement &statement, Frame &frame) {
    return std::visit(
        Overloaded{
            [&](const Operation &node) {
                operation(node, frame);
                return true;
            },
            [&](const CallModule &node) { return callModule(node, frame); },
            [&](const CallFunction &node) {
                Frame callee;
                callee.callable = &m_programs.program(node.program);
                callee.self = frame.self;
                callee.path = frame.path;
                for (const auto &[name, constant] : node.constants)
                    callee.set(name, TracedValue::of(constant));
                return enter(frame, std::move(callee), node.args, node.out, false);
            },
            [&](const CallForward &node) {
                Frame callee;
                callee.callable = &m_programs.forwardOf(frame.self);
                callee.self = frame.self;
                callee.path = frame.path;
                return enter(frame, std::move(callee), node.args, node.out, true);
            },
            [&](const LoopModules &node) { return loop(node, frame); },
            [&](const TryBlock &node) { return body(node.body, 0, node.body.size(), frame); },
        },
        statement.node);
}

bool Walker::callModule(const CallModule &call, Frame &frame) {
    const bool isElement = call.element && frame.element.has_value();
    const auto target = isElement ? frame.element : m_model.tree.resolve(frame.self, call.path);
    if (!target)
        return true; // a description without this module: nothing is called
    const std::string path = isElement ? frame.elementPath : call.path;
    enteringModule(frame, joinPath(frame.path, path), *target);
    const Module &module = m_model.tree.at(*target);
    Frame callee;
    callee.callable = module.callProgram.empty() ? &m_programs.forwardOf(*target)
                                                 : &m_programs.program(module.callProgram);
    callee.self = *target;
    callee.path = joinPath(frame.path, path);
    for (const auto &[name, constant] : call.constants)
        callee.set(name, TracedValue::of(constant));
    return enter(frame, std::move(callee), call.args, call.out, module.callProgram.empty());
}

bool Walker::enter(Frame &frame, Frame callee, const std::vector<Var> &args,
                   const std::vector<Var> &out, bool behindCallImpl) {
    const std::vector<Var> &inputs = callee.callable->program->inputs;
    for (std::size_t i = 0; i < inputs.size() && i < args.size(); ++i)
        if (!args[i].empty())
            callee.set(inputs[i], frame.get(args[i]));
    std::vector<TracedValue> results;
    if (!call(frame, std::move(callee), behindCallImpl, results))
        return false;
    for (std::size_t i = 0; i < out.size() && i < results.size(); ++i)
        frame.set(out[i], std::move(results[i]));
    return true;
}

bool Walker::loop(const LoopModules &loop, Frame &frame) {
    const auto list = m_model.tree.resolve(frame.self, loop.list);
    if (!list)
        return true;
    const auto outerElement = frame.element;
    const std::string outerPath = frame.elementPath;
    for (const ModuleIndex child : m_model.tree.at(*list).children) {
        frame.element = child;
        frame.elementPath = loop.list + "." + m_model.tree.at(child).localName;
        if (!body(loop.body, 0, loop.body.size(), frame))
            return false;
    }
    frame.element = outerElement;
    frame.elementPath = outerPath;
    return true;
}

void Replay::run(Frame &frame, std::size_t end) {
    body(frame.callable->program->body, frame.begin, end, frame);
}

bool Replay::call(Frame &, Frame callee, bool, std::vector<TracedValue> &results) {
    const Body &statements = callee.callable->program->body;
    body(statements, 0, statements.size(), callee);
    results = callee.results();
    return true;
}

} // namespace tpscope
