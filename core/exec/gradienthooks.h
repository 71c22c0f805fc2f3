// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/processgroup.h"
#include "exec/shardedmodel.h"
#include "graph/hooksites.h"

namespace tpscope {

// The gradient-sync hooks of one rank, registered when and where each mode registers them (REFERENCE.md section 4):
//   module-backward       on the module, before its weights are loaded; stays for ever
//   tensor-grad           on the parameter's tensor, right after loading
//   post-accumulate-grad  on the parameter, in the first forward with gradients; a replaced parameter anew
// Must outlive every backward through the model.
class GradientHooks {
public:
    // onRegister: called with the module at every registration.
    GradientHooks(HookMode mode, std::vector<HookSite> sites, ProcessGroup *group,
                  std::function<void(ModuleIndex)> onRegister);
    GradientHooks(const GradientHooks &) = delete;
    GradientHooks &operator=(const GradientHooks &) = delete;

    // The parameters now stand; those that train require a gradient by now.
    void loaded(const ShardedModel &model);

    // A parameter that upstream holds as a DTensor on every rank and computes with as one: its gradient is summed over
    // the ranks by DTensor itself, whatever the mode.
    void sumByItself(const LocalParameter &parameter);

    // The two edges of a hooked module's forward; called under whatever gradient mode the forward runs in.
    at::Tensor enter(ModuleIndex module, const at::Tensor &input);
    at::Tensor leave(ModuleIndex module, const at::Tensor &output);

    // Hooks that are really there: asked of the tensors; modules for module-backward.
    int registered() const;
    // All-reduces of each parameter's gradient so far, by full name.
    const std::map<std::string, int> &reductions() const { return m_reductions; }

private:
    struct Site {
        HookSite site;
        std::vector<std::pair<std::string, at::Tensor>> parameters;
        bool moduleHook = false;          // module-backward: registered
        bool inputNeedsGradient = false;  // of the forward that runs
    };

    void reduce(const std::string &name, at::Tensor &gradient);
    void sumIncoming(const std::string &name, const at::Tensor &parameter);
    void reduceAccumulated(Site &site);
    Site *find(ModuleIndex module);

    HookMode m_mode;
    ProcessGroup *m_group;
    std::function<void(ModuleIndex)> m_onRegister;
    std::vector<Site> m_sites;
    std::unordered_map<std::size_t, std::size_t> m_byModule;
    std::map<std::string, int> m_reductions;
};

} // namespace tpscope
