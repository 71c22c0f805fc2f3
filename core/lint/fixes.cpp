// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/fixes.h"

#include <algorithm>
#include <set>
#include <tuple>

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

// Loaded as upstream would: each style fits each module it is put on.
bool loads(const ModelDescription &model, const std::vector<RuleChange> &changes) {
    for (const RuleChange &change : changes) {
        const ParallelStyle *style = findStyle(change.style);
        if (!style || (style->expertParallel && change.part == PlanPart::Tp))
            return false;
        for (const Module &module : model.tree.modules)
            if (genericName(module.name) == change.key && !fitsModule(*style, module))
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

PlanPart partOf(const EffectiveRule &rule) { return rule.expert ? PlanPart::Ep : PlanPart::Tp; }

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

namespace {

// How well a candidate mends a finding.
enum class Mends { Nothing, This, Forward, All };

Mends mends(const LintContext &context, const FlowFinding &finding, bool training, const std::set<Place> &before,
            const std::vector<RuleChange> &changes) {
    const ResolvedPlan plan =
        context.plan.ep > 1 ? resolvedAnew(context, changes) : changedPlan(context.model, context.plan, changes);
    // Without expert parallelism much is right: that is another plan, not a repair of this one.
    if (plan.appliesEpPlan != context.plan.appliesEpPlan || !plan.cutTwice.empty())
        return Mends::Nothing;
    const LayoutFlow flow(context.model, plan);
    const FlowResult forward = flow.run(context.tp, context.inference);
    const bool runs = forward.right();
    std::set<Place> after = placesOf(context.model, forward);
    if (!training && !after.empty())
        return !after.contains(placeOf(context.model, finding)) && std::ranges::includes(before, after) ? Mends::This
                                                                                                        : Mends::Nothing;
    if (!runs)
        return Mends::Nothing;
    FlowOptions options = context.training;
    options.everyLayer = training;
    const std::set<Place> gradients = placesOf(context.model, flow.run(context.tp, options));
    if (gradients.empty())
        return Mends::All;
    if (!training)
        return Mends::Forward;
    return !gradients.contains(placeOf(context.model, finding)) && std::ranges::includes(before, gradients)
               ? Mends::This
               : Mends::Nothing;
}

} // namespace

std::optional<Fix> provenFix(const LintContext &context, const FlowFinding &finding, bool training,
                             const std::vector<std::vector<RuleChange>> &candidates) {
    const FlowResult &now = training ? *context.backward : context.forward;
    const std::set<Place> before = placesOf(context.model, now);
    std::optional<Fix> best;
    Mends most = Mends::Nothing;
    for (const std::vector<RuleChange> &candidate : candidates) {
        const auto changes = placed(context.plan, candidate);
        if (!changes || changes->empty() || !loads(context.model, *changes))
            continue;
        const Mends mended = mends(context, finding, training, before, *changes);
        if (mended <= most)
            continue;
        most = mended;
        best = fixOf(context, *changes);
        if (most == Mends::All)
            break;
    }
    return best;
}

} // namespace tpscope
