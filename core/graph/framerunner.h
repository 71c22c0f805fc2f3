// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/framecache.h"
#include "graph/frametracer.h"
#include "graph/graphcapture.h"
#include "graph/walker.h"

namespace tpscope {

// A break that Dynamo ran into while compiling: the hooked module and the frame that calls it.
struct BreakEvent {
    ModuleIndex module;
    std::string innermost;
};

// Runs a model's forward as Python under torch.compile does: every function call is a frame that is
// compiled, run from the cache, or run in eager. Keeps the cache from call to call. One thread.
class FrameRunner : public Walker {
public:
    // References must outlive this object. cache: nullptr for forwards without one.
    FrameRunner(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                const std::vector<bool> &hooked, const CaptureOptions &options,
                const StaticCache *cache, std::int64_t tokens);

    // One call of the model. inputs: values of its forward's inputs by name. Afterwards launches()
    // are this call's.
    void forward(const std::vector<std::pair<std::string, TracedValue>> &inputs);

    struct Launch {
        int graph = 0;
        ModuleIndex module;
    };
    const std::vector<Launch> &launches() const { return m_launches; }
    const std::vector<CapturedGraph> &graphs() const { return m_graphs; }
    const std::vector<BreakEvent> &breaks() const { return m_breaks; }
    std::vector<CapturedFrame> frames() const;
    int breakCounter() const { return m_breakCounter; }

protected:
    bool call(Frame &caller, Frame callee, bool behindCallImpl,
              std::vector<TracedValue> &results) override;

private:
    std::vector<TracedValue> run(Frame frame);
    std::vector<TracedValue> runEager(Frame &frame);
    std::vector<TracedValue> runCompiled(Frame &frame, const CompiledEntry &entry);
    CompiledEntry *compile(CodeState &state, const Frame &frame);
    bool overLimit(CodeState &state) const;
    int addGraph(CodeState &state, const Frame &frame, const Trace &trace);
    void recordBreak(const Trace &trace);

    ShapeFlow m_shapeFlow;
    ProgramTable m_table;
    FrameFacts m_facts;
    FrameTracer m_tracer;
    Replay m_replay;
    FrameCache m_cache;
    CaptureOptions m_options;
    bool m_compiling = true; // false below a frame that is over its recompile limit
    std::vector<Launch> m_launches;
    std::vector<CapturedGraph> m_graphs;
    std::vector<BreakEvent> m_breaks;
    int m_breakCounter = 0;
};

} // namespace tpscope
