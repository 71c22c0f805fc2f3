// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/frametracer.h"

#include <algorithm>

namespace tpscope {
namespace {

std::string whyNotResumable(const Statement &statement) {
    if (std::holds_alternative<LoopModules>(statement.node))
        return "a loop";
    if (const auto *block = std::get_if<TryBlock>(&statement.node))
        return block->loop ? "a loop" : "a try block";
    return {};
}

} // namespace

FrameTracer::FrameTracer(const ModelDescription &model, ProgramTable &programs,
                         const ShapeFlow &shapes, const StaticCache *cache, const FrameFacts &facts,
                         const std::vector<bool> &hooked)
    : Walker(model, programs, shapes), m_cache(cache), m_facts(facts), m_hooked(hooked) {}

Trace FrameTracer::trace(Frame frame) {
    m_trace = {};
    m_read.clear();
    m_pins.clear();
    for (std::size_t i = 0; i < frame.locals.size(); ++i)
        frame.locals[i].second.local = static_cast<int>(i);
    m_root = frame;
    const Body &statements = frame.callable->program->body;
    for (m_statement = frame.begin; m_statement < statements.size(); ++m_statement)
        if (!statement(statements[m_statement], frame)) {
            m_trace.breakAt = m_statement;
            m_trace.cannotResume = whyNotResumable(statements[m_statement]);
            break;
        }
    keepGuarded(frame);
    return std::move(m_trace);
}

void FrameTracer::keepGuarded(const Frame &frame) {
    const std::size_t end = m_trace.broke ? m_trace.breakAt : frame.callable->program->body.size();
    for (const Read &seen : m_trace.seen)
        if (seen.statement < end)
            m_trace.guarded.push_back(seen);
    for (const auto &[where, pinned] : m_pins)
        if (where < end)
            m_trace.pinned.push_back(pinned);
    std::erase_if(m_trace.withOperations, [end](std::size_t where) { return where >= end; });
    if (!m_trace.broke)
        return;
    const std::size_t before = m_trace.seen.size();
    m_read.clear(); // what the callee read counts anew for the call's own arguments
    readArguments(frame.callable->program->body[m_trace.breakAt], frame);
    m_trace.guarded.insert(m_trace.guarded.end(),
                           m_trace.seen.begin() + static_cast<std::ptrdiff_t>(before),
                           m_trace.seen.end());
}

void FrameTracer::readArguments(const Statement &statement, const Frame &frame) {
    const std::vector<Var> *args = nullptr;
    std::string path;
    if (const auto *module = std::get_if<CallModule>(&statement.node)) {
        args = &module->args;
        path = module->path;
    } else if (const auto *function = std::get_if<CallFunction>(&statement.node)) {
        args = &function->args;
    } else if (const auto *forward = std::get_if<CallForward>(&statement.node)) {
        args = &forward->args;
    }
    if (!args)
        return; // a loop or a try block: the whole frame is skipped
    read({GuardSource::Kind::ModuleClass, path, {}, 0}, {});
    for (const Var &arg : *args)
        if (const TracedValue &value = frame.get(arg); value.local >= 0)
            read({GuardSource::Kind::Local, {}, arg, 0}, value);
}

void FrameTracer::read(GuardSource source, TracedValue value) {
    if (source.kind == GuardSource::Kind::Local) // as the root frame names it
        source.name = m_root.locals[static_cast<std::size_t>(value.local)].first;
    if (!m_read.insert(source.key()).second)
        return;
    if (source.kind != GuardSource::Kind::Local)
        value = m_facts.valueOf(source, m_root);
    m_trace.seen.push_back({std::move(source), std::move(value), m_statement});
}

void FrameTracer::enteringModule(Frame &, const std::string &path, ModuleIndex) {
    read({GuardSource::Kind::ModuleClass, {}, {}, 0}, {});
    read({GuardSource::Kind::ModuleClass, path, {}, 0}, {});
}

bool FrameTracer::call(Frame &caller, Frame callee, bool behindCallImpl,
                       std::vector<TracedValue> &results) {
    if (behindCallImpl && m_hooked[callee.self.value]) {
        m_trace.broke = true;
        m_trace.hooked = callee.self;
        m_trace.innermost = caller.callable->program->frame;
        return false;
    }
    const Body &statements = callee.callable->program->body;
    if (!body(statements, 0, statements.size(), callee))
        return false;
    results = callee.results();
    return true;
}

void FrameTracer::operation(const Operation &operation, Frame &frame) {
    if (!operation.onlyIf.empty())
        read({GuardSource::Kind::ModuleAttribute, frame.path, operation.onlyIf, 0}, {});
    // In a branch that is not taken, such as the cache update without a cache, nothing is read and
    // nothing computed.
    const bool reached = m_model.tree.at(frame.self).flag(operation.onlyIf, true) &&
                         (operation.kind != OpKind::CacheUpdate ||
                          frame.get(operation.in.back()).kind == TracedValue::Kind::Cache);
    if (reached) {
        readOperands(operation, frame);
        // Which layer's state it is matters where a cache holds it.
        if (operation.kind != OpKind::DeltaRule || frame.get(operation.in.back()).kind == TracedValue::Kind::Cache)
            readExtras(operation, frame);
        pin(operation, frame);
        if (operation.graphOps > 0 &&
            (m_trace.withOperations.empty() || m_trace.withOperations.back() != m_statement))
            m_trace.withOperations.push_back(m_statement);
    }
    Walker::operation(operation, frame);
}

void FrameTracer::readOperands(const Operation &operation, const Frame &frame) {
    if (operation.graphOps == 0)
        return; // passes references on; touches no tensor
    for (const Var &in : operation.in)
        if (const TracedValue &value = frame.get(in); value.local >= 0)
            read({GuardSource::Kind::Local, {}, {}, 0}, value);
    if (operation.parameters.empty())
        return;
    read({GuardSource::Kind::ModuleClass, {}, {}, 0}, {});
    for (const std::string &parameter : operation.parameters)
        read({GuardSource::Kind::Parameter, frame.path, parameter, 0}, {});
}

void FrameTracer::readExtras(const Operation &operation, const Frame &frame) {
    for (const GuardRead &extra : operation.reads) {
        switch (extra.kind) {
        case GuardRead::Kind::SelfAttribute:
            read({GuardSource::Kind::ModuleAttribute, frame.path, extra.name, 0}, {});
            break;
        case GuardRead::Kind::Argument:
            if (const TracedValue &value = frame.get(extra.name); value.local >= 0)
                read({GuardSource::Kind::Local, {}, {}, 0}, value);
            break;
        case GuardRead::Kind::CacheLength: {
            const bool cached = std::ranges::any_of(operation.in, [&](const Var &in) {
                return frame.get(in).kind == TracedValue::Kind::Cache;
            });
            const std::size_t layer = m_shapes.cacheLayer(extra.name, frame.self);
            if (cached && m_cache && m_cache->slides(layer))
                read({GuardSource::Kind::CacheLength, {}, {}, layer}, {});
            break;
        }
        }
    }
}

// A norm multiplies by its weight and a linear contracts with it: the last size of the operand
// cannot stay dynamic.
void FrameTracer::pin(const Operation &operation, const Frame &frame) {
    if (operation.parameters.empty() || operation.in.empty() || operation.kind == OpKind::Embedding)
        return;
    const TracedValue &value = frame.get(operation.in.front());
    if (value.kind == TracedValue::Kind::Tensor && value.local >= 0 && value.sizes.rank > 0)
        m_pins.push_back({m_statement, {value.local, value.sizes.rank - 1}});
}

} // namespace tpscope
