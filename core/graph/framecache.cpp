// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/framecache.h"

#include <algorithm>

namespace tpscope {
namespace {

std::string calledBy(const Statement &statement) {
    if (const auto *module = std::get_if<CallModule>(&statement.node))
        return module->path;
    if (const auto *function = std::get_if<CallFunction>(&statement.node))
        return function->program;
    return statement.label.empty() ? "its call" : statement.label;
}

} // namespace

std::string frameName(const Frame &frame) {
    if (frame.begin == 0)
        return frame.callable->name;
    return "resume of " + frame.callable->name + " after " +
           calledBy(frame.callable->program->body[frame.begin - 1]);
}

CodeState &FrameCache::stateOf(const Frame &frame) {
    // A resume function belongs to the original code object and the place where it goes on, however
    // often the frame broke before: ContinueExecutionCache of torch 2.13
    // _dynamo/resume_execution.py.
    std::string key = frame.callable->code;
    if (frame.begin > 0)
        key += "#" + std::to_string(frame.begin);
    std::unique_ptr<CodeState> &state = m_states[key];
    if (!state) {
        state = std::make_unique<CodeState>();
        state->name = frameName(frame);
        m_order.push_back(state.get());
    }
    return *state;
}

CompiledEntry *FrameCache::lookup(CodeState &state, const Frame &frame, const FrameFacts &facts) {
    const auto found = std::ranges::find_if(state.entries, [&](const CompiledEntry &entry) {
        return entry.callable == frame.callable &&
               std::ranges::all_of(entry.guards,
                                   [&](const Guard &guard) { return facts.passes(guard, frame); });
    });
    if (found == state.entries.end())
        return nullptr;
    state.entries.splice(state.entries.begin(), state.entries, found);
    return &state.entries.front();
}

} // namespace tpscope
