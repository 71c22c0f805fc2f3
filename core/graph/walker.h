// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "graph/frame.h"
#include "graph/programtable.h"
#include "graph/shapeflow.h"

namespace tpscope {

// Executes the statements of a frame on abstract values. What a call does is the derived class'
// choice: a tracer and a replay inline it, a runner lets Dynamo intercept it.
class Walker {
public:
    Walker(const ModelDescription &model, ProgramTable &programs, const ShapeFlow &shapes);
    virtual ~Walker() = default;
    Walker(const Walker &) = delete;
    Walker &operator=(const Walker &) = delete;

protected:
    // behindCallImpl: the callee is a module's forward, entered through nn.Module._call_impl, where
    // its hooks sit. Returns false when the walk stops here; else results holds the callee's
    // outputs.
    virtual bool call(Frame &caller, Frame callee, bool behindCallImpl,
                      std::vector<TracedValue> &results) = 0;
    virtual void operation(const Operation &operation, Frame &frame);
    virtual void enteringModule(Frame &caller, const std::string &path, ModuleIndex module);

    bool statement(const Statement &statement, Frame &frame);
    bool body(const Body &body, std::size_t begin, std::size_t end, Frame &frame);

    const ModelDescription &m_model;
    ProgramTable &m_programs;
    const ShapeFlow &m_shapes;

private:
    bool callModule(const CallModule &call, Frame &frame);
    bool enter(Frame &frame, Frame callee, const std::vector<Var> &args,
               const std::vector<Var> &out, bool behindCallImpl);
    bool loop(const LoopModules &loop, Frame &frame);
};

// Computes the values of a compiled frame again: everything inlined, no hook, nothing recorded.
class Replay : public Walker {
public:
    using Walker::Walker;
    void run(Frame &frame, std::size_t end); // top-level statements frame.begin .. end-1

protected:
    bool call(Frame &caller, Frame callee, bool behindCallImpl,
              std::vector<TracedValue> &results) override;
};

} // namespace tpscope
