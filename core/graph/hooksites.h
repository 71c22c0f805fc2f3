// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "plan/resolvedplan.h"

namespace tpscope {

// How gradients of replicated parameters are summed (REFERENCE.md section 4).
enum class HookMode { None, ModuleBackward, PostAccumulateGrad, TensorGrad };
std::string_view name(HookMode mode); // "none", "module-backward", ...
Result<HookMode> parseHookMode(const std::string &text);
// <= 5.21 module-backward, later post-accumulate-grad.
HookMode hookModeOf(const Upstream &upstream);

// A module on whose parameters a hook sits, or would sit once gradients are needed.
struct HookSite {
    ModuleIndex module;
    std::string name;                    // full module name
    std::vector<std::string> parameters; // full names
    std::string rule;                    // key of the plan's rule
    SourceSpan span;                     // of the rule, line 0 when inherited
    // module-backward and tensor-grad: yes; post-accumulate-grad: no.
    bool registeredUnderNoGrad = false;
    bool breaksGraph = false; // module-backward only
};

// Sites in module order. tp 1: none, upstream applies no plan. A rule whose key names a parameter
// hooks nothing, since hooks come with the module's forward. module-backward hooks modules without
// parameters too (act_fn, rotary_emb); the other modes have nothing to sit on there and give no
// site. Source: transformers 5.21 and 5.24 distributed/tensor_parallel.py
// ReplicatedWithGradAllReduce.install_forward.
std::vector<HookSite> hookSites(const ModelDescription &model, const ResolvedPlan &plan,
                                HookMode mode);

} // namespace tpscope
