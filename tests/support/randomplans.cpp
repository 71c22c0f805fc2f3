// SPDX-License-Identifier: GPL-3.0-or-later
#include "randomplans.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/plandocument.h"

namespace tpscope::test {
namespace {

// Whether upstream would take the style at load; others are drawn seldom, since nothing runs then.
bool fits(const ParallelStyle &style, const Module &module, const Parameter *parameter) {
    using Requires = ParallelStyle::Requires;
    if (style.refusedInTpPlan)
        return false;
    if (parameter)
        return !style.needsTwoDims || parameter->shape.size() > 1;
    return style.requires_ == Requires::Nothing || module.isLinear;
}

std::string blockOf(const std::string &key) { return key.substr(0, key.rfind('.')); }

} // namespace

PlanChoice RandomPlan::choice() const {
    PlanChoice choice;
    if (rules.empty())
        return choice;
    choice.kind = PlanChoice::Kind::Document;
    choice.document = *parsePlan(nlohmann::json{{"tp_plan", rules}}.dump(), "plan.json");
    return choice;
}

std::string RandomPlan::text() const { return "tp " + std::to_string(tp) + " " + nlohmann::json(rules).dump(); }

RandomPlans::RandomPlans(const ModelDescription &model, const BuiltinPlan &builtin, std::uint64_t seed)
    : m_random(seed) {
    const ResolvedPlan inherited = resolvePlan(model, {}, &builtin, 2);
    std::map<std::string, std::string> styles;
    for (const EffectiveRule &rule : inherited.rules)
        styles[rule.rule.key] = rule.rule.style;
    std::set<std::string> seen;
    const auto add = [&](const std::string &name, const Module &module, const Parameter *parameter) {
        const std::string key = genericName(name);
        if (key.empty() || !seen.insert(key).second)
            return;
        const auto style = styles.find(key);
        m_targets.push_back({key, &module, parameter, style == styles.end() ? "" : style->second});
    };
    for (const Module &module : model.tree.modules) {
        add(module.name, module, nullptr);
        for (const Parameter &parameter : module.parameters)
            add(module.name.empty() ? parameter.name : module.name + "." + parameter.name, module, &parameter);
    }
    for (const Target &target : m_targets) {
        const std::size_t weight = !target.inherited.empty() ? 8 : !target.module->parameters.empty() ? 3 : 1;
        m_weighted.insert(m_weighted.end(), target.parameter && target.inherited.empty() ? 1 : weight, &target);
    }
}

std::string RandomPlans::styleFor(const Target &target) {
    std::vector<std::string> possible{"replicate"};
    const bool any = oneIn(40);
    for (const ParallelStyle &style : parallelStyles())
        if (any || fits(style, *target.module, target.parameter))
            possible.emplace_back(style.name);
    return possible[below(possible.size())];
}

void RandomPlans::changeOne(RandomPlan &plan) {
    const Target &target = *m_weighted[below(m_weighted.size())];
    plan.rules[target.key] = styleFor(target);
}

// All rules of one block together, as an author would: cancelled, or gathered and split again.
void RandomPlans::changeBlock(RandomPlan &plan) {
    std::vector<const Target *> ruled;
    for (const Target &target : m_targets)
        if (!target.inherited.empty())
            ruled.push_back(&target);
    const std::string block = blockOf(ruled[below(ruled.size())]->key);
    const bool cancels = oneIn(2);
    for (const Target *target : ruled) {
        if (blockOf(target->key) != block)
            continue;
        const ParallelStyle *style = findStyle(target->inherited);
        const bool linear = style && style->requires_ != ParallelStyle::Requires::Nothing;
        if (cancels || !linear)
            plan.rules[target->key] = "replicate";
        else if (style->weightAxis == ParallelStyle::WeightAxis::Rows)
            plan.rules[target->key] = "colwise_gather_output";
        else
            plan.rules[target->key] = "rowwise_split_input";
    }
}

void RandomPlans::changeMany(RandomPlan &plan) {
    for (const Target &target : m_targets)
        if (oneIn(target.inherited.empty() ? 12 : 2))
            plan.rules[target.key] = styleFor(target);
}

RandomPlan RandomPlans::next(int smallestTp, int largestTp) {
    RandomPlan plan;
    // Small sizes more often: most models cannot be cut into many parts.
    for (plan.tp = smallestTp; plan.tp < largestTp && oneIn(2);)
        ++plan.tp;
    const std::size_t kind = below(10);
    if (kind == 0)
        changeMany(plan);
    if (kind >= 5)
        changeBlock(plan);
    for (std::size_t changes = kind == 0 ? 0 : kind == 9 ? below(2) : 1 + below(2); changes > 0; --changes)
        changeOne(plan);
    return plan;
}

} // namespace tpscope::test
