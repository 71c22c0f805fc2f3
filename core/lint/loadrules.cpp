// SPDX-License-Identifier: GPL-3.0-or-later
// What transformers 5.24 says of a plan when the model is loaded. Source: distributed/mixin.py _resolve_parallel_plans
// and _validate_parallel_plan, install_forward and shard_param of the styles.
#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "lint/fixes.h"

namespace tpscope {
namespace {

std::string nameInFile(const LintContext &context, const PlanRule &rule) {
    return rule.origin == RuleOrigin::File ? std::string() : " of " + context.model.config.fileName();
}

void tpSize(const LintContext &context, Findings &findings) {
    if (context.tp >= 1)
        return;
    findings.add(code::badTpSize, "tp size " + std::to_string(context.tp) + ": parallel sizes are at least 1");
    findings.reject();
}

void emptyOrMissing(const LintContext &context, Findings &findings) {
    const ResolvedPlan &plan = context.plan;
    if (!plan.configPlanProblem.empty()) {
        findings.add(code::brokenConfigPlan, plan.configPlanProblem);
        findings.reject();
    }
    if (plan.emptyMapping && context.tp > 1) {
        findings.add(code::emptyPlan, "`tp_plan: {}` is refused at tp " + std::to_string(context.tp) +
                                          ": upstream says the model \"has no `tp_plan`\", although its documentation "
                                          "takes {} for no tensor parallelism");
        findings.reject();
    } else if (plan.noPlan) {
        Diagnostic &finding =
            findings.add(code::noPlan, context.tp > 1
                                           ? "there is no plan for " + context.model.className + " at tp " +
                                                 std::to_string(context.tp) + ": upstream refuses to load it"
                                           : std::string("nothing is sharded: the plan has no rule"));
        if (context.tp > 1)
            findings.reject();
        else
            finding.severity = Severity::Warning;
    }
}

void documentFacts(const LintContext &context, Findings &findings) {
    const PlanDocument *document = context.document();
    if (!document)
        return;
    if (document->modelType && *document->modelType != context.model.modelType)
        findings.add(code::otherModel, "the plan was written for " + inTicks(*document->modelType) + ", the model is " +
                                           inTicks(context.model.modelType));
    if (!document->tpPlanIsMapping)
        findings.add(code::planIgnored,
                     "tp_plan is no mapping: upstream ignores it and uses the built-in plan, as for \"auto\"");
}

void duplicateKeys(const LintContext &context, Findings &findings) {
    const PlanDocument *document = context.document();
    for (const std::vector<std::size_t> &group : context.plan.duplicates) {
        std::vector<std::string> lines;
        for (const std::size_t index : group)
            lines.push_back(std::to_string(document->rules[index].keySpan.line));
        const PlanRule &last = document->rules[group.back()];
        Diagnostic &finding =
            findings.add(code::duplicateKey, "the key " + inTicks(last.key) + " stands on lines " + list(lines) +
                                                 "; only the last one counts (" + last.style + ")");
        finding.rule = last.key;
        finding.span = last.keySpan;
    }
}

void unknownStyles(const LintContext &context, Findings &findings) {
    bool first = true;
    for (const EffectiveRule &rule : context.plan.rules) {
        if (rule.style || rule.dropped)
            continue;
        const std::string nearestName(rule.rule.styleIsText ? nearestStyle(rule.rule.style) : std::string_view());
        std::string message = rule.rule.styleIsText
                                  ? "unknown style \"" + shortened(rule.rule.style) + "\""
                                  : "the style must be text, found " + shortened(rule.rule.style);
        message += " for " + inTicks(rule.rule.key) + nameInFile(context, rule.rule);
        if (!nearestName.empty())
            message += "; nearest: " + nearestName;
        if (first) {
            std::vector<std::string> names;
            for (const ParallelStyle &style : parallelStyles())
                names.emplace_back(style.name);
            message += "; supported: " + list(names);
        }
        first = false;
        Diagnostic &finding = findings.add(code::unknownStyle, std::move(message));
        blame(finding, rule);
        if (rule.rule.styleSpan.valid())
            finding.span = rule.rule.styleSpan;
        if (!nearestName.empty())
            finding.fix = fixOf(context, {{rule.rule.key, nearestName}});
        findings.reject();
    }
}

std::vector<std::string> allNames(const LintContext &context) {
    std::vector<std::string> names;
    std::unordered_set<std::string> seen;
    const auto add = [&](std::string name) {
        if (!name.empty() && seen.insert(name).second)
            names.push_back(std::move(name));
    };
    for (const Module &module : context.model.tree.modules) {
        add(genericName(module.name));
        for (const Parameter &parameter : module.parameters)
            add(genericName(module.name.empty() ? parameter.name : module.name + "." + parameter.name));
    }
    return names;
}

// How an unmatched key would match: written with *, with the prefix, or as its nearest name.
struct Correction {
    std::string key; // "" none
    std::string_view code = code::unmatchedKey;
    std::string reason;
};

Correction correct(const LintContext &context, const std::string &key, const std::vector<std::string> &names) {
    const auto known = [&](const std::string &name) { return std::ranges::find(names, name) != names.end(); };
    const std::string generic = genericName(key);
    const std::string prefixed = context.model.baseModelPrefix + "." + generic;
    if (generic != key && known(generic))
        return {generic, code::literalLayer,
                "layer numbers are written `*`, and a rule for a single layer is not possible upstream"};
    if (known(prefixed))
        return {prefixed, code::missingPrefix, "keys are full names and begin with `" + context.model.baseModelPrefix + ".`"};
    const std::string near = nearest(key, names);
    return {near, code::unmatchedKey, near.empty() ? std::string() : "nearest: " + inTicks(near)};
}

void unmatchedKeys(const LintContext &context, Findings &findings) {
    std::vector<std::string> names;
    bool configMatches = false;
    std::vector<const EffectiveRule *> unmatchedConfig;
    for (const EffectiveRule &rule : context.plan.rules) {
        const bool fromConfig = context.plan.baseMode == "config" && rule.rule.origin == RuleOrigin::ConfigPlan;
        configMatches = configMatches || (fromConfig && rule.matches);
        if (rule.matches)
            continue;
        if (fromConfig)
            unmatchedConfig.push_back(&rule);
        if (names.empty())
            names = allNames(context);
        const Correction correction = correct(context, rule.rule.key, names);
        const bool refused = rule.rule.origin == RuleOrigin::File && !rule.overridesInherited;
        std::string message = "the key " + inTicks(shortened(rule.rule.key, 100)) + nameInFile(context, rule.rule) +
                              " matches nothing in " + context.model.className;
        if (!correction.reason.empty())
            message += ": " + correction.reason;
        if (!refused)
            message += "; upstream only warns and goes on without the rule";
        Diagnostic &finding =
            findings.add(refused ? correction.code : code::unmatchedInherited, std::move(message));
        blame(finding, rule);
        if (refused)
            findings.reject();
        else if (rule.rule.origin != RuleOrigin::File && !fromConfig)
            finding.severity = Severity::Info; // so shipped
        const PlanDocument *document = context.document();
        const bool taken = std::ranges::any_of(context.plan.rules, [&](const EffectiveRule &other) {
            return other.documentIndex && other.rule.key == correction.key;
        });
        if (document && rule.documentIndex && !correction.key.empty() && !taken)
            finding.fix = Fix{"rename the key to " + inTicks(correction.key),
                              {renameKeyEdit(*document, *rule.documentIndex, correction.key)}};
    }
    if (!unmatchedConfig.empty() && !configMatches)
        findings.add(code::nothingMatches,
                     "none of the " + std::to_string(unmatchedConfig.size()) + " rules of base_model_tp_plan in " +
                         context.model.config.fileName() + " matches a name of " + context.model.className +
                         ": the layers stay whole on every rank");
}

void expertRules(const LintContext &context, Findings &findings) {
    for (const EffectiveRule &rule : context.plan.rules) {
        if (!rule.style || !rule.style->expertParallel || !rule.matches)
            continue;
        Diagnostic &finding =
            findings.add(code::expertStyle, inTicks(rule.rule.style) + " on " + inTicks(rule.rule.key) +
                                                " is an expert-parallel style and belongs in ep_plan, not in tp_plan");
        blame(finding, rule);
        addModules(context, finding, rule.modules);
        if (rule.style->refusedInTpPlan && !rule.modules.empty())
            findings.reject();
    }
    for (const PlanRule &rule : context.plan.epUnmatched) {
        Diagnostic &finding = findings.add(code::unmatchedKey, "the key " + inTicks(rule.key) +
                                                                   " of ep_plan matches nothing in " +
                                                                   context.model.className);
        finding.rule = rule.key;
        finding.span = rule.keySpan;
        findings.reject();
    }
}

// What install_forward and shard_param refuse.
std::string refusal(const LintContext &context, const EffectiveRule &rule) {
    using Requires = ParallelStyle::Requires;
    const ParallelStyle &style = *rule.style;
    for (const ModuleIndex index : rule.modules) {
        const Module &module = context.model.tree.at(index);
        if (style.requires_ == Requires::OutFeatures && !module.hasOutFeatures)
            return module.className + " has no `out_features`: the style shards linear layers";
        if (style.requires_ == Requires::InFeatures && !module.hasInFeatures)
            return module.className + " has no `in_features`: the style shards linear layers";
    }
    for (const std::string &name : rule.parameters) {
        const std::size_t dot = name.rfind('.');
        const Module *owner = context.model.tree.find(dot == std::string::npos ? "" : name.substr(0, dot));
        const Parameter *parameter = owner ? owner->parameter(name.substr(dot + 1)) : nullptr;
        if (!parameter)
            continue;
        if (style.needsTwoDims && parameter->shape.size() < 2)
            return inTicks(genericName(name)) + " has one dimension, the style cuts the second";
        if (style.evenOnly && owner->attributes.contains("num_experts") && !parameter->shape.empty() &&
            parameter->shape.front() % context.tp != 0)
            return std::to_string(parameter->shape.front()) + " experts cannot be dealt out evenly to " +
                   std::to_string(context.tp) + " ranks";
    }
    return {};
}

void refusedStyles(const LintContext &context, Findings &findings) {
    for (const EffectiveRule &rule : context.plan.rules) {
        if (!rule.style || rule.dropped)
            continue;
        const std::string reason = refusal(context, rule);
        if (reason.empty())
            continue;
        Diagnostic &finding = findings.add(code::refusedStyle, inTicks(rule.rule.style) + " on " +
                                                                   inTicks(rule.rule.key) + " is refused at load: " + reason);
        blame(finding, rule);
        if (rule.rule.styleSpan.valid())
            finding.span = rule.rule.styleSpan;
        addModules(context, finding, rule.modules);
        finding.fix = fixOf(context, {{rule.rule.key, plainStyle()}});
        findings.reject();
    }
}

} // namespace

void checkLoad(const LintContext &context, Findings &findings) {
    tpSize(context, findings);
    documentFacts(context, findings);
    emptyOrMissing(context, findings);
    duplicateKeys(context, findings);
    unmatchedKeys(context, findings);
    unknownStyles(context, findings);
    expertRules(context, findings);
    refusedStyles(context, findings);
}

} // namespace tpscope
