// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/framerunner.h"

#include <algorithm>

namespace tpscope {
namespace {

// torch._dynamo.config.accumulated_recompile_limit, a second limit that `recompile_limit` does not
// lift.
constexpr std::size_t accumulatedLimit = 256;

// The statements a graph holds, in words. A wrapper whose body is one call is looked through.
std::vector<std::string> labelsOf(const ModelDescription &model, const Callable &callable,
                                  const std::vector<std::size_t> &statements) {
    const Body &body = callable.program->body;
    if (body.size() == 1) {
        const Statement *only = &body.front();
        if (const auto *block = std::get_if<TryBlock>(&only->node);
            block && block->body.size() == 1)
            only = &block->body.front();
        if (const auto *function = std::get_if<CallFunction>(&only->node)) {
            const ForwardProgram &inner = model.program(function->program);
            std::vector<std::size_t> all(inner.body.size());
            for (std::size_t i = 0; i < all.size(); ++i)
                all[i] = i;
            return labelsOf(model, Callable{&inner, nullptr, {}, {}}, all);
        }
    }
    std::vector<std::string> labels;
    for (const std::size_t index : statements) {
        const Statement &statement = body[index];
        std::string label = statement.label;
        if (const auto *module = std::get_if<CallModule>(&statement.node); module && label.empty())
            label = module->path;
        if (const auto *function = std::get_if<CallFunction>(&statement.node);
            function && label.empty())
            label = function->program;
        if (const auto *operation = std::get_if<Operation>(&statement.node);
            operation && label.empty())
            label = std::string(name(operation->kind));
        labels.push_back(std::move(label));
    }
    return labels;
}

} // namespace

FrameRunner::FrameRunner(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                         const std::vector<bool> &hooked, const CaptureOptions &options,
                         const StaticCache *cache, std::int64_t tokens)
    : Walker(model, m_table, m_shapeFlow), m_shapeFlow(model, plan, cache),
      m_table(model, plan, hooks), m_facts(model, m_shapeFlow, cache, tokens),
      m_tracer(model, m_table, m_shapeFlow, cache, m_facts, hooked),
      m_replay(model, m_table, m_shapeFlow), m_options(options) {}

void FrameRunner::forward(const std::vector<std::pair<std::string, TracedValue>> &inputs) {
    m_launches.clear();
    Frame root;
    root.callable = &m_table.forwardOf(ModuleIndex(0));
    for (const Var &input : root.callable->program->inputs) {
        const auto given = std::ranges::find(inputs, input, &std::pair<std::string, TracedValue>::first);
        root.set(input, given == inputs.end() ? TracedValue() : given->second);
    }
    run(std::move(root));
}

std::vector<CapturedFrame> FrameRunner::frames() const {
    std::vector<CapturedFrame> frames;
    for (const CodeState *state : m_cache.states())
        frames.push_back({state->name, state->graphs, state->eagerBecause});
    return frames;
}

bool FrameRunner::call(Frame &, Frame callee, bool, std::vector<TracedValue> &results) {
    callee.path.clear();
    results = run(std::move(callee));
    return true;
}

// Source: torch 2.13 csrc/dynamo/eval_frame_cpp.cpp dynamo__custom_eval_frame.
std::vector<TracedValue> FrameRunner::run(Frame frame) {
    if (frame.begin > 0 && frame.begin == frame.callable->program->body.size())
        return frame.results(); // nothing left but the return
    if (frame.callable->program->skipFile)
        return runEager(frame);
    CodeState &state = m_cache.stateOf(frame);
    if (state.skipped)
        return runEager(frame);
    const bool compiling = m_compiling;
    const CompiledEntry *entry = m_cache.lookup(state, frame, m_facts);
    if (!entry && compiling && !state.runOnly)
        entry = compile(state, frame);
    if (state.runOnly)
        m_compiling = false; // for everything this frame calls, whether it is compiled or not
    // A copy: frames below may reorder the list the entry stands in.
    std::vector<TracedValue> results =
        entry ? runCompiled(frame, CompiledEntry(*entry)) : runEager(frame);
    m_compiling = compiling;
    return results;
}

std::vector<TracedValue> FrameRunner::runEager(Frame &frame) {
    const Body &statements = frame.callable->program->body;
    body(statements, frame.begin, statements.size(), frame);
    return frame.results();
}

std::vector<TracedValue> FrameRunner::runCompiled(Frame &frame, const CompiledEntry &entry) {
    const Body &statements = frame.callable->program->body;
    if (entry.graph >= 0)
        m_launches.push_back({entry.graph, frame.self});
    m_replay.run(frame, entry.broke ? entry.breakAt : statements.size());
    if (!entry.broke)
        return frame.results();
    statement(statements[entry.breakAt], frame); // a plain Python call: its callees are intercepted
    Frame resume = frame;
    resume.begin = entry.breakAt + 1;
    return run(std::move(resume));
}

bool FrameRunner::overLimit(CodeState &state) const {
    const std::size_t entries = state.entries.size();
    if (entries >= accumulatedLimit)
        state.eagerBecause =
            "accumulated_recompile_limit (" + std::to_string(accumulatedLimit) + ") reached";
    else if (entries >= static_cast<std::size_t>(m_options.recompileLimit))
        state.eagerBecause =
            "recompile_limit (" + std::to_string(m_options.recompileLimit) + ") reached";
    else
        return false;
    return true;
}

CompiledEntry *FrameRunner::compile(CodeState &state, const Frame &frame) {
    if (overLimit(state)) {
        state.runOnly = true;
        return nullptr;
    }
    const Trace trace = m_tracer.trace(frame);
    AutomaticDynamic &dynamic = state.dynamic[frame.callable];
    for (const Read &read : trace.seen)
        dynamic.observe(read.source, read.value);
    if (trace.broke)
        recordBreak(trace);
    // A frame that cannot resume, or returns without an operation, is not compiled now or later.
    state.skipped = trace.broke ? !trace.cannotResume.empty() : trace.withOperations.empty();
    if (state.skipped) {
        state.eagerBecause =
            trace.broke ? "graph break in " + trace.cannotResume : "no operation in it";
        return nullptr;
    }
    m_breakCounter += trace.broke ? 1 : 0;
    CompiledEntry entry{frame.callable, {}, -1, trace.broke, trace.breakAt};
    for (const Read &read : trace.guarded)
        entry.guards.push_back(m_facts.guardOn(read, dynamic, trace.pinned));
    if (!trace.withOperations.empty())
        entry.graph = addGraph(state, frame, trace);
    state.entries.push_front(std::move(entry));
    return &state.entries.front();
}

int FrameRunner::addGraph(CodeState &state, const Frame &frame, const Trace &trace) {
    CapturedGraph graph;
    graph.id = static_cast<int>(m_graphs.size());
    graph.frame = frame.callable->program->frame;
    graph.program = frameName(frame);
    if (trace.broke)
        graph.endsAt = genericName(m_model.tree.at(trace.hooked).name);
    graph.labels = labelsOf(m_model, *frame.callable, trace.withOperations);
    m_graphs.push_back(std::move(graph));
    ++state.graphs;
    return m_graphs.back().id;
}

void FrameRunner::recordBreak(const Trace &trace) {
    const std::string folded = genericName(m_model.tree.at(trace.hooked).name);
    const bool known = std::ranges::any_of(m_breaks, [&](const BreakEvent &event) {
        return event.innermost == trace.innermost &&
               genericName(m_model.tree.at(event.module).name) == folded;
    });
    if (!known)
        m_breaks.push_back({trace.hooked, trace.innermost});
}

} // namespace tpscope
