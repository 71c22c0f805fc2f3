// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/hooksites.h"

#include <array>
#include <utility>

namespace tpscope {
namespace {

constexpr std::array<std::pair<HookMode, std::string_view>, 4> names{{
    {HookMode::None, "none"},
    {HookMode::ModuleBackward, "module-backward"},
    {HookMode::PostAccumulateGrad, "post-accumulate-grad"},
    {HookMode::TensorGrad, "tensor-grad"},
}};

std::vector<std::string> parameterNames(const Module &module) {
    std::vector<std::string> full;
    for (const Parameter &parameter : module.parameters)
        full.push_back(module.name.empty() ? parameter.name : module.name + "." + parameter.name);
    return full;
}

} // namespace

std::string_view name(HookMode mode) {
    for (const auto &[known, text] : names)
        if (known == mode)
            return text;
    return "none";
}

Result<HookMode> parseHookMode(const std::string &text) {
    std::string all;
    for (const auto &[mode, known] : names) {
        if (known == text)
            return mode;
        all += (all.empty() ? "" : ", ") + std::string(known);
    }
    return fail(ErrorCode::Usage, "--hooks \"" + text + "\": expected one of " + all);
}

HookMode hookModeOf(const Upstream &upstream) {
    return upstream <= Upstream{5, 21} ? HookMode::ModuleBackward : HookMode::PostAccumulateGrad;
}

std::vector<HookSite> hookSites(const ModelDescription &model, const ResolvedPlan &plan,
                                HookMode mode) {
    std::vector<HookSite> sites;
    if (mode == HookMode::None || plan.tp <= 1)
        return sites;
    const bool hooksModules = mode == HookMode::ModuleBackward;
    for (std::size_t i = 0; i < model.tree.modules.size(); ++i) {
        const EffectiveRule *rule = plan.ruleOfModule(ModuleIndex(i));
        if (!rule || !rule->style || !rule->style->hooksParameters())
            continue;
        const Module &module = model.tree.modules[i];
        if (module.parameters.empty() && !hooksModules)
            continue;
        HookSite site;
        site.module = ModuleIndex(i);
        site.name = module.name;
        site.parameters = parameterNames(module);
        site.rule = rule->rule.key;
        site.span = rule->rule.keySpan;
        site.registeredUnderNoGrad = mode != HookMode::PostAccumulateGrad;
        site.breaksGraph = hooksModules;
        sites.push_back(std::move(site));
    }
    return sites;
}

} // namespace tpscope
