// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/guard.h"
#include "graph/walker.h"

namespace tpscope {

// What Dynamo learns from tracing a frame from frame.begin on.
struct Trace {
    bool broke = false;
    std::size_t breakAt = 0;  // top-level statement whose call leads to the hooked module
    std::string cannotResume; // "a loop", "a try block"; empty: the frame resumes after breakAt
    ModuleIndex hooked;       // the module that broke it
    std::string innermost;    // the innermost frame, the one that calls the hooked module
    // Everything read up to the break: what automatic dynamic shapes see. A break restarts the
    // analysis, so guarded is less: what was read before statement breakAt, and the arguments of
    // its call. What the callee read is forgotten.
    std::vector<Read> seen;
    std::vector<Read> guarded;
    // (local variable, dimension) that an operation before breakAt ties to a static size.
    std::vector<std::pair<int, int>> pinned;
    // Top-level statements before breakAt that record graph operations.
    std::vector<std::size_t> withOperations;
};

// Traces one frame as Dynamo does with nested_graph_breaks=False: inlines every callee; a break
// anywhere below belongs to the call of the root frame. Rules: README.md of this folder;
// source: torch 2.13 _dynamo/symbolic_convert.py.
class FrameTracer : public Walker {
public:
    // hooked: by module, whether it has a backward hook.
    FrameTracer(const ModelDescription &model, ProgramTable &programs, const ShapeFlow &shapes,
                const StaticCache *cache, const FrameFacts &facts, const std::vector<bool> &hooked);
    Trace trace(Frame frame); // a copy: tracing changes nothing outside

protected:
    bool call(Frame &caller, Frame callee, bool behindCallImpl,
              std::vector<TracedValue> &results) override;
    void operation(const Operation &operation, Frame &frame) override;
    void enteringModule(Frame &caller, const std::string &path, ModuleIndex module) override;

private:
    void read(GuardSource source, TracedValue value);
    void readOperands(const Operation &operation, const Frame &frame);
    void readExtras(const Operation &operation, const Frame &frame);
    void pin(const Operation &operation, const Frame &frame);
    void readArguments(const Statement &statement, const Frame &frame);
    void keepGuarded(const Frame &frame);

    const StaticCache *m_cache;
    const FrameFacts &m_facts;
    const std::vector<bool> &m_hooked;
    Trace m_trace;
    Frame m_root;
    std::size_t m_statement = 0;
    std::unordered_set<std::string> m_read;
    std::vector<std::pair<std::size_t, std::pair<int, int>>> m_pins; // with the statement
};

} // namespace tpscope
