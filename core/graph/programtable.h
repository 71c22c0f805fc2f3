// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/frame.h"
#include "graph/hooksites.h"
#include "plan/resolvedplan.h"

namespace tpscope {

// Which Python function each call enters: the description's programs, and in front of a module
// whose style replaces its forward the closure `tp_forward`, one code object for all styles. A
// style that only syncs its parameters' gradients (ParallelStyle::hooksParameters) replaces the
// forward under post-accumulate-grad only: up to 5.21 it registers a module hook and nothing else.
// Source: transformers 5.21 to 5.24 distributed/tensor_parallel.py install_forward.
class ProgramTable {
public:
    ProgramTable(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks);

    const Callable &program(const std::string &id);
    // What stands behind nn.Module._call_impl of this module.
    const Callable &forwardOf(ModuleIndex module);

private:
    const Callable &wrapped(const ParallelStyle &style, const Callable &inner);

    const ModelDescription &m_model;
    const ResolvedPlan &m_plan;
    HookMode m_hooks;
    std::deque<ForwardProgram> m_wrappers; // addresses stay
    std::deque<Callable> m_callables;
    std::map<std::string, const Callable *> m_byProgram;
    std::map<std::pair<const ParallelStyle *, const Callable *>, const Callable *> m_byStyle;
    std::vector<const Callable *> m_forwards; // by module
};

} // namespace tpscope
