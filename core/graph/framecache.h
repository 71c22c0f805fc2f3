// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/guard.h"

namespace tpscope {

// Compiled code of a frame, valid where the guards hold.
struct CompiledEntry {
    const Callable *callable = nullptr; // another closure of the same code object never matches
    std::vector<Guard> guards;
    int graph = -1; // launched first; -1: no operation before the end or the break
    bool broke = false;
    std::size_t breakAt = 0;
};

// What Dynamo keeps for one code object: entries, the newest or last used first, and how its frames
// are to be run. Source: torch 2.13 csrc/dynamo/extra_state.cpp lookup (move to front),
// _dynamo/types.py ConvertFrameReturn, _dynamo/cache_size.py.
struct CodeState {
    std::string name; // for people
    std::list<CompiledEntry> entries;
    std::map<const Callable *, AutomaticDynamic> dynamic; // by closure, as CodeId.closure_hash
    bool skipped = false; // its frames run in eager; what they call is intercepted as before
    // Over the recompile limit: entries still run, nothing is compiled in it or below it.
    bool runOnly = false;
    int graphs = 0;
    std::string eagerBecause;
};

// All code objects Dynamo has met, in that order.
class FrameCache {
public:
    // Of frame's code object from its first statement, or of the resume function at frame.begin.
    CodeState &stateOf(const Frame &frame);
    CompiledEntry *lookup(CodeState &state, const Frame &frame, const FrameFacts &facts);
    const std::vector<CodeState *> &states() const { return m_order; }

private:
    std::unordered_map<std::string, std::unique_ptr<CodeState>> m_states;
    std::vector<CodeState *> m_order;
};

// "resume of Qwen3Attention.forward after q_norm", or the function's own name where it starts.
std::string frameName(const Frame &frame);

} // namespace tpscope
