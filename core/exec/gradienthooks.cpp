// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/gradienthooks.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "exec/gradientedges.h"

namespace tpscope {
namespace {

struct AfterAccumulation : torch::autograd::PostAccumulateGradHook {
    explicit AfterAccumulation(std::function<void(const at::Tensor &)> given) : action(std::move(given)) {}
    void operator()(const at::Tensor &parameter) override { action(parameter); }
    std::function<void(const at::Tensor &)> action;
};

} // namespace

GradientHooks::GradientHooks(HookMode mode, std::vector<HookSite> sites, ProcessGroup *group,
                             std::function<void(ModuleIndex)> onRegister)
    : m_mode(mode), m_group(group), m_onRegister(std::move(onRegister)) {
    if (!group || mode == HookMode::None) // one rank: transformers applies no plan, so nothing is hooked
        return;
    for (HookSite &site : sites) {
        m_byModule.emplace(site.module.value, m_sites.size());
        m_sites.push_back({std::move(site), {}, mode == HookMode::ModuleBackward, false});
        if (mode == HookMode::ModuleBackward)
            m_onRegister(m_sites.back().site.module);
    }
}

void GradientHooks::loaded(const ShardedModel &model) {
    for (Site &site : m_sites) {
        site.parameters.clear();
        for (const std::string &name : site.site.parameters)
            if (const LocalParameter *parameter = model.find(name)) {
                site.parameters.emplace_back(name, parameter->tensor);
                if (m_mode != HookMode::TensorGrad || !parameter->tensor.requires_grad())
                    continue;
                sumIncoming(name, parameter->tensor);
                m_onRegister(site.site.module);
            }
    }
}

void GradientHooks::sumByItself(const LocalParameter &parameter) {
    if (m_group && parameter.tensor.requires_grad())
        sumIncoming(parameter.name, parameter.tensor);
}

void GradientHooks::sumIncoming(const std::string &name, const at::Tensor &parameter) {
    parameter.register_hook([this, name](const at::Tensor &gradient) {
        // A copy: the incoming tensor may be somebody else's gradient as well.
        at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
        reduce(name, sum);
        return sum;
    });
}

at::Tensor GradientHooks::enter(ModuleIndex module, const at::Tensor &input) {
    Site *site = find(module);
    if (!site || !at::GradMode::is_enabled())
        return input;
    if (m_mode == HookMode::PostAccumulateGrad) {
        for (auto &[name, parameter] : site->parameters) {
            if (!parameter.requires_grad() || torch::autograd::impl::post_acc_grad_hooks(parameter))
                continue;
            torch::autograd::impl::set_post_acc_grad_hooks(
                parameter, std::make_unique<AfterAccumulation>([this, hooked = name](const at::Tensor &owner) {
                    reduce(hooked, owner.mutable_grad());
                }));
            m_onRegister(module);
        }
    }
    if (!site->moduleHook)
        return input;
    site->inputNeedsGradient = input.requires_grad();
    if (!site->inputNeedsGradient)
        return input;
    return edges::withBackward(input, input, [this, site](const at::Tensor &gradient) {
        reduceAccumulated(*site);
        return gradient;
    });
}

at::Tensor GradientHooks::leave(ModuleIndex module, const at::Tensor &output) {
    Site *site = find(module);
    if (!site || !site->moduleHook || !at::GradMode::is_enabled() || site->inputNeedsGradient ||
        !output.requires_grad())
        return output;
    // No gradient flows to the input, so the hook runs where the output's gradient arrives: too early.
    return edges::withBackward(output, output, [this, site](const at::Tensor &gradient) {
        reduceAccumulated(*site);
        return gradient;
    });
}

int GradientHooks::registered() const {
    int count = 0;
    for (const Site &site : m_sites) {
        count += site.moduleHook ? 1 : 0;
        for (const auto &[name, parameter] : site.parameters) {
            count += torch::autograd::impl::post_acc_grad_hooks(parameter) ? 1 : 0;
            count += static_cast<int>(torch::autograd::impl::hooks(parameter).size());
        }
    }
    return count;
}

void GradientHooks::reduce(const std::string &name, at::Tensor &gradient) {
    const at::NoGradGuard noGradients;
    m_group->allReduce(gradient);
    ++m_reductions[name];
}

void GradientHooks::reduceAccumulated(Site &site) {
    for (auto &[name, parameter] : site.parameters)
        if (at::Tensor &gradient = parameter.mutable_grad(); gradient.defined())
            reduce(name, gradient);
}

GradientHooks::Site *GradientHooks::find(ModuleIndex module) {
    const auto found = m_byModule.find(module.value);
    return found == m_byModule.end() ? nullptr : &m_sites[found->second];
}

} // namespace tpscope
