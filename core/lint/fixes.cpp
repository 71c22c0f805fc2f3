// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/fixes.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "lint/attentionparts.h"

namespace tpscope {
namespace {

using Place = std::tuple<FlowCause, std::string, std::string, std::string, std::string>;

Place placeOf(const ModelDescription &model, const FlowFinding &finding) {
    const ModuleIndex from = finding.sides.empty() ? finding.module : finding.sides.front().module;
    return {finding.cause, genericName(model.tree.at(finding.module).name), finding.operation, finding.parameter,
            genericName(model.tree.at(from).name)};
}

std::set<Place> placesOf(const ModelDescription &model, const FlowResult &result) {
    std::set<Place> places;
    for (const FlowFinding &finding : result.findings)
        if (!finding.harmless)
            places.insert(placeOf(model, finding));
    return places;
}

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

bool fits(const ParallelStyle &style, const Module &module) {
    using Requires = ParallelStyle::Requires;
    if ((style.requires_ == Requires::OutFeatures && !module.hasOutFeatures) ||
        (style.requires_ == Requires::InFeatures && !module.hasInFeatures))
        return false;
    const bool flat = std::ranges::any_of(module.parameters, [](const Parameter &p) { return p.shape.size() < 2; });
    return !(style.needsTwoDims && flat);
}

// Loaded as upstream would: each style fits each module it is put on.
bool loads(const ModelDescription &model, const std::vector<RuleChange> &changes) {
    for (const RuleChange &change : changes) {
        const ParallelStyle *style = findStyle(change.style);
        if (!style || (style->expertParallel && change.part == PlanPart::Tp))
            return false;
        for (const Module &module : model.tree.modules)
            if (genericName(module.name) == change.key && !fits(*style, module))
                return false;
    }
    return true;
}

std::optional<std::size_t> documentRule(const PlanDocument &document, const RuleChange &change) {
    const std::vector<PlanRule> &rules = change.part == PlanPart::Tp ? document.rules : document.epRules;
    for (std::size_t i = rules.size(); i-- > 0;) // of duplicates the last one counts
        if (rules[i].key == change.key && !rules[i].merged)
            return i;
    return std::nullopt;
}

// Each change where it has an effect: an ep rule takes its name and all below it out of the tp plan. Nothing: nowhere.
std::optional<std::vector<RuleChange>> placed(const ResolvedPlan &plan, std::vector<RuleChange> changes) {
    if (plan.ep <= 1)
        return changes;
    for (RuleChange &change : changes) {
        const auto isOwn = [&](const PlanRule &rule) { return rule.key == change.key; };
        if (std::ranges::any_of(plan.epRules, isOwn))
            change.part = PlanPart::Ep;
        else if (change.part == PlanPart::Tp && namedByEpRules(plan, change.key)) {
            if (!plan.appliesEpPlan)
                return std::nullopt;
            change.part = PlanPart::Ep;
        }
    }
    return changes;
}

// As if the document had these rules too.
ResolvedPlan resolvedAnew(const LintContext &context, const std::vector<RuleChange> &changes) {
    PlanChoice choice = context.choice;
    choice.kind = PlanChoice::Kind::Document;
    if (!choice.document)
        choice.document.emplace();
    for (const RuleChange &change : changes) {
        PlanRule rule;
        rule.key = change.key;
        rule.style = change.style;
        (change.part == PlanPart::Tp ? choice.document->rules : choice.document->epRules).push_back(std::move(rule));
        choice.document->hasTpPlan = choice.document->hasTpPlan || change.part == PlanPart::Tp;
    }
    choice.ep = context.plan.ep;
    return resolvePlan(context.model, choice, context.builtin, context.plan.tp);
}

// One insertion or replacement that turns a into b.
std::optional<TextEdit> difference(const std::string &a, const std::string &b) {
    if (a == b)
        return std::nullopt;
    std::size_t front = 0;
    while (front < a.size() && front < b.size() && a[front] == b[front])
        ++front;
    std::size_t back = 0;
    while (back < a.size() - front && back < b.size() - front && a[a.size() - 1 - back] == b[b.size() - 1 - back])
        ++back;
    return TextEdit{front, a.size() - front - back, b.substr(front, b.size() - front - back)};
}

} // namespace

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

std::vector<TextEdit> editsFor(const PlanDocument *document, const std::vector<RuleChange> &changes) {
    std::vector<TextEdit> edits;
    if (!document)
        return edits;
    // New rules go one behind the other, so the second is placed in the text that has the first.
    std::string grown = document->text;
    for (const RuleChange &change : changes) {
        if (const auto index = documentRule(*document, change)) {
            edits.push_back(setStyleEdit(*document, *index, change.style, change.part));
            continue;
        }
        const auto parsed = parsePlan(grown, document->fileName);
        if (!parsed)
            return {};
        grown = applyEdit(grown, addRuleEdit(*parsed, change.key, change.style, change.part));
    }
    if (const auto added = difference(document->text, grown))
        edits.push_back(*added);
    std::ranges::sort(edits, {}, &TextEdit::offset);
    return edits;
}

std::string titleOf(const std::vector<RuleChange> &changes) {
    // Keys of one style together: "set a and b to x, and c to y".
    std::vector<std::pair<std::string, std::vector<std::string>>> byStyle;
    for (const RuleChange &change : changes) {
        const std::string style = change.style + (change.part == PlanPart::Ep ? " in ep_plan" : "");
        auto found = std::ranges::find(byStyle, style, [](const auto &entry) { return entry.first; });
        if (found == byStyle.end())
            found = byStyle.insert(byStyle.end(), {style, {}});
        found->second.push_back(inTicks(change.key));
    }
    std::vector<std::string> parts;
    for (const auto &[style, keys] : byStyle)
        parts.push_back(list(keys) + " to " + style);
    return "set " + list(parts);
}

Fix fixOf(const LintContext &context, const std::vector<RuleChange> &changes) {
    return {titleOf(changes), editsFor(context.document(), changes)};
}

ResolvedPlan changedPlan(const ModelDescription &model, const ResolvedPlan &plan,
                         const std::vector<RuleChange> &changes) {
    ResolvedPlan out = plan;
    for (const RuleChange &change : changes) {
        auto rule = std::ranges::find(out.rules, change.key, [](const EffectiveRule &r) { return r.rule.key; });
        if (rule == out.rules.end()) {
            rule = out.rules.emplace(out.rules.end());
            rule->rule.key = change.key;
        }
        rule->rule.style = change.style;
        rule->style = findStyle(change.style);
        const int number = static_cast<int>(rule - out.rules.begin());
        for (std::size_t m = 0; m < model.tree.modules.size(); ++m) {
            const Module &module = model.tree.modules[m];
            const std::string generic = genericName(module.name);
            const bool own = generic == change.key;
            if (own)
                out.moduleRule[m] = number;
            else if (!change.key.starts_with(generic))
                continue;
            for (const Parameter &parameter : module.parameters) {
                const std::string name = module.name + "." + parameter.name;
                const auto known = out.parameterRule.find(name);
                const bool ownRule =
                    known != out.parameterRule.end() &&
                    out.rules[static_cast<std::size_t>(known->second)].rule.key == genericName(name);
                if (genericName(name) == change.key || (own && !ownRule))
                    out.parameterRule[name] = number;
            }
        }
    }
    return out;
}

std::optional<Fix> provenFix(const LintContext &context, const FlowFinding &finding, bool training,
                             const std::vector<std::vector<RuleChange>> &candidates) {
    const FlowResult &now = training ? *context.backward : context.forward;
    const std::set<Place> before = placesOf(context.model, now);
    std::optional<Fix> partly; // mends this finding, and leaves others
    for (const std::vector<RuleChange> &candidate : candidates) {
        const auto found = placed(context.plan, candidate);
        if (!found || found->empty() || !loads(context.model, *found))
            continue;
        const std::vector<RuleChange> &changes = *found;
        const ResolvedPlan plan = context.plan.ep > 1 ? resolvedAnew(context, changes)
                                                      : changedPlan(context.model, context.plan, changes);
        // Without expert parallelism much is right: that is another plan, not a repair of this one.
        if (plan.appliesEpPlan != context.plan.appliesEpPlan || !plan.cutTwice.empty())
            continue;
        const LayoutFlow flow(context.model, plan);
        const FlowResult forward = flow.run(context.tp, context.inference);
        std::set<Place> after = placesOf(context.model, forward);
        if (training) {
            if (forward.fails || forward.wrongOutput)
                continue;
            after = placesOf(context.model, flow.run(context.tp, context.training));
        }
        if (after.empty())
            return fixOf(context, changes);
        if (!partly && !after.contains(placeOf(context.model, finding)) && std::ranges::includes(before, after))
            partly = fixOf(context, changes);
    }
    return partly;
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
            fits(style, context.model.tree.at(module)))
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

std::vector<RuleChange> gatherAttention(const LintContext &context, ModuleIndex attention) {
    const AttentionParts parts = attentionParts(context.flow->index(), attention);
    const ParallelStyle *gathers = styleWhere([](const ParallelStyle &s) {
        return s.requires_ == ParallelStyle::Requires::OutFeatures && s.output == ParallelStyle::Output::Gather;
    });
    const ParallelStyle *splits = styleWhere([](const ParallelStyle &s) {
        return s.requires_ == ParallelStyle::Requires::InFeatures && s.input == ParallelStyle::Input::Split;
    });
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
