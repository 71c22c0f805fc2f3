// SPDX-License-Identifier: GPL-3.0-or-later
// What could mend a finding: styles by their traits, and changes of several rules that belong together.
#include <algorithm>

#include "lint/attentionparts.h"
#include "lint/fixes.h"

namespace tpscope {
namespace {

template <typename Test> const ParallelStyle *styleWhere(Test test) {
    for (const ParallelStyle &style : parallelStyles())
        if (style.name == style.canonical && !style.expertParallel && test(style))
            return &style;
    return nullptr;
}

bool isPlain(const ParallelStyle &style) {
    return style.weightAxis == ParallelStyle::WeightAxis::None && style.sync == ParallelStyle::Sync::None &&
           !style.localTensors && !style.takesInput && !style.takesOutput;
}

std::string styleIn(const std::vector<PlanRule> &rules, const ModelDescription &model, const std::string &key) {
    for (const PlanRule &rule : rules)
        if (model.baseModelPrefix + "." + rule.key == key)
            return rule.style;
    return {};
}

} // namespace

bool fitsModule(const ParallelStyle &style, const Module &module) {
    using Requires = ParallelStyle::Requires;
    if ((style.requires_ == Requires::OutFeatures && !module.hasOutFeatures) ||
        (style.requires_ == Requires::InFeatures && !module.hasInFeatures))
        return false;
    const bool flat = std::ranges::any_of(module.parameters, [](const Parameter &p) { return p.shape.size() < 2; });
    return !(style.needsTwoDims && flat);
}

std::string plainStyle() {
    const ParallelStyle *style = styleWhere(isPlain);
    return style ? std::string(style->name) : std::string();
}

std::string summingStyle() {
    const ParallelStyle *style = styleWhere([](const ParallelStyle &s) { return s.hooksParameters(); });
    return style ? std::string(style->name) : std::string();
}

std::string dealingStyle() {
    for (const ParallelStyle &style : parallelStyles())
        if (style.evenOnly)
            return std::string(style.name);
    return {};
}

std::string localStyle() {
    const ParallelStyle *style = styleWhere([](const ParallelStyle &s) {
        return s.localTensors && !s.takesInput && !s.takesOutput && s.weightAxis == ParallelStyle::WeightAxis::None;
    });
    return style ? std::string(style->name) : std::string();
}

std::string vocabularyStyle() {
    const ParallelStyle *style = styleWhere([](const ParallelStyle &s) {
        return s.weightAxis == ParallelStyle::WeightAxis::First && s.output == ParallelStyle::Output::Reduce;
    });
    return style ? std::string(style->name) : std::string();
}

std::string packedStyle() {
    const ParallelStyle *style = styleWhere([](const ParallelStyle &s) {
        return s.groups > 1 && s.weightAxis == ParallelStyle::WeightAxis::Rows && s.localTensors;
    });
    return style ? std::string(style->name) : std::string();
}

std::string builtinTpStyle(const LintContext &context, const std::string &key) {
    if (context.builtin) {
        for (const PlanRule &rule : context.builtin->classRules)
            if (rule.key == key)
                return rule.style;
        if (const std::string style = styleIn(context.builtin->configRules, context.model, key); !style.empty())
            return style;
    }
    // The default rule for embeddings, which no list has.
    const ResolvedPlan plan = resolvePlan(context.model, PlanChoice{}, context.builtin, context.plan.tp);
    for (const EffectiveRule &rule : plan.rules)
        if (rule.rule.key == key && rule.style && !rule.expert && !rule.style->expertParallel)
            return rule.rule.style;
    return plainStyle();
}

std::string builtinEpStyle(const LintContext &context, const std::string &key) {
    const std::string style =
        context.builtin ? styleIn(context.builtin->configEpRules, context.model, key) : std::string();
    return style.empty() ? plainStyle() : style;
}

std::vector<std::vector<RuleChange>> builtinStyle(const LintContext &context, ModuleIndex module) {
    const std::string key = folded(context, module);
    const EffectiveRule *rule = context.plan.ruleOfModule(module);
    std::vector<std::vector<RuleChange>> out;
    if (!context.builtin)
        return out;
    const auto offer = [&](const std::string &style) {
        if (!rule || rule->rule.style != style)
            out.push_back({{key, style}});
    };
    for (const PlanRule &own : context.builtin->classRules)
        if (own.key == key)
            offer(own.style);
    for (const PlanRule &own : context.builtin->configRules)
        if (context.model.baseModelPrefix + "." + own.key == key)
            offer(own.style);
    return out;
}

std::vector<std::vector<RuleChange>> otherStyles(const LintContext &context, ModuleIndex module) {
    const std::string key = folded(context, module);
    const EffectiveRule *rule = context.plan.ruleOfModule(module);
    std::vector<std::vector<RuleChange>> out = builtinStyle(context, module);
    const ParallelStyle *now = rule ? rule->style : nullptr;
    std::vector<const ParallelStyle *> styles;
    for (const ParallelStyle &style : parallelStyles())
        if (style.requires_ != ParallelStyle::Requires::Nothing && style.name == style.canonical &&
            fitsModule(style, context.model.tree.at(module)))
            styles.push_back(&style);
    // A style that cuts the weight as now changes least.
    std::ranges::stable_partition(styles, [&](const ParallelStyle *s) { return now && s->weightAxis == now->weightAxis; });
    for (const ParallelStyle *style : styles)
        if (style != now)
            out.push_back({{key, std::string(style->name)}});
    if (!now || now->name != plainStyle())
        out.push_back({{key, plainStyle()}});
    return out;
}

std::vector<RuleChange> wholeModule(const LintContext &context, ModuleIndex module) {
    const Module &self = context.model.tree.at(module);
    const std::string plain = plainStyle();
    std::vector<RuleChange> changes;
    for (const Parameter &parameter : self.parameters) {
        const EffectiveRule *rule = context.plan.ruleOfParameter(self.name + "." + parameter.name);
        const std::string key = folded(context, module) + "." + parameter.name;
        if (rule && rule->rule.key == key && rule->rule.style != plain)
            changes.push_back({key, plain});
    }
    if (const EffectiveRule *rule = context.plan.ruleOfModule(module); rule && rule->rule.style != plain)
        changes.push_back({folded(context, module), plain});
    return changes;
}

namespace {

const ParallelStyle *gatheringStyle() {
    return styleWhere([](const ParallelStyle &s) {
        return s.requires_ == ParallelStyle::Requires::OutFeatures && s.output == ParallelStyle::Output::Gather;
    });
}

const ParallelStyle *splittingStyle() {
    return styleWhere([](const ParallelStyle &s) {
        return s.requires_ == ParallelStyle::Requires::InFeatures && s.input == ParallelStyle::Input::Split;
    });
}

} // namespace

std::vector<std::vector<RuleChange>> gatherAround(const LintContext &context, ModuleIndex around, ModuleIndex module) {
    const ParallelStyle *gathers = gatheringStyle();
    const ParallelStyle *splits = splittingStyle();
    std::vector<std::vector<RuleChange>> out;
    if (!gathers || !splits)
        return out;
    for (const ModuleIndex other : context.model.tree.at(around).children)
        if (other != module && context.model.tree.at(other).isLinear)
            out.push_back({{folded(context, module), std::string(gathers->name)},
                           {folded(context, other), std::string(splits->name)}});
    return out;
}

std::vector<RuleChange> gatherAttention(const LintContext &context, ModuleIndex attention) {
    const AttentionParts parts = attentionParts(context.flow->index(), attention);
    const ParallelStyle *gathers = gatheringStyle();
    const ParallelStyle *splits = splittingStyle();
    if (!parts.found() || !gathers || !splits)
        return {};
    std::vector<RuleChange> changes;
    const auto change = [&](ModuleIndex module, const std::string &style) {
        const EffectiveRule *rule = context.plan.ruleOfModule(module);
        const RuleChange wanted{folded(context, module), style};
        if ((!rule || !rule->style || rule->style->canonical != style) &&
            std::ranges::find(changes, wanted) == changes.end())
            changes.push_back(wanted);
    };
    for (const ModuleIndex module : parts.projections)
        change(module, std::string(gathers->name));
    for (const ModuleIndex module : parts.norms) {
        const ParallelStyle *style = context.flow->index().style(module);
        if (style && style->sync != ParallelStyle::Sync::None) // whole activations give whole gradients
            change(module, plainStyle());
    }
    for (const ModuleIndex module : parts.outputs)
        change(module, std::string(splits->name));
    return changes;
}

std::vector<RuleChange> alikeAttention(const LintContext &context, ModuleIndex attention) {
    const AttentionParts parts = attentionParts(context.flow->index(), attention);
    std::vector<RuleChange> changes;
    if (!parts.found())
        return changes;
    const EffectiveRule *first = context.plan.ruleOfModule(parts.projections.front());
    if (!first || !first->style)
        return changes;
    for (const ModuleIndex module : parts.projections) {
        const EffectiveRule *rule = context.plan.ruleOfModule(module);
        if (!rule || rule->rule.style != first->rule.style)
            changes.push_back({folded(context, module), first->rule.style});
    }
    return changes;
}

} // namespace tpscope
