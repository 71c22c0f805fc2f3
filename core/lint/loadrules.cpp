// SPDX-License-Identifier: GPL-3.0-or-later
// What transformers 5.24 says of a plan when the model is loaded. Source: distributed/mixin.py _resolve_parallel_plans
// and _validate_parallel_plan, install_forward and shard_param of the styles.
#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "lint/fixes.h"

namespace tpscope {
namespace {

PlanPart partOf(const EffectiveRule &rule) { return rule.expert ? PlanPart::Ep : PlanPart::Tp; }

std::string nameInFile(const LintContext &context, const EffectiveRule &rule) {
    const std::string part = rule.expert ? " of the ep_plan" : "";
    return rule.rule.origin == RuleOrigin::File ? part : part + " of " + context.model.config.fileName();
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

void duplicateKeys(const std::vector<std::vector<std::size_t>> &groups, const std::vector<PlanRule> &rules,
                   Findings &findings) {
    for (const std::vector<std::size_t> &group : groups) {
        std::vector<std::string> lines;
        for (const std::size_t index : group)
            lines.push_back(std::to_string(rules[index].keySpan.line));
        const PlanRule &last = rules[group.back()];
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
        if (rule.style || rule.dropped || (rule.expert && removedFromEpPlan(rule.rule.style)))
            continue;
        const std::string nearestName(rule.rule.styleIsText ? nearestStyle(rule.rule.style) : std::string_view());
        std::string message = rule.rule.styleIsText
                                  ? "unknown style \"" + shortened(rule.rule.style) + "\""
                                  : "the style must be text, found " + shortened(rule.rule.style);
        message += " for " + inTicks(rule.rule.key) + nameInFile(context, rule);
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
            finding.fix = fixOf(context, {{rule.rule.key, nearestName, partOf(rule)}});
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
        const bool fromConfig = !rule.expert && context.plan.baseMode == "config" &&
                                rule.rule.origin == RuleOrigin::ConfigPlan;
        configMatches = configMatches || (fromConfig && rule.matches);
        if (rule.matches)
            continue;
        if (fromConfig)
            unmatchedConfig.push_back(&rule);
        if (names.empty())
            names = allNames(context);
        const Correction correction = correct(context, rule.rule.key, names);
        const bool refused = rule.rule.origin == RuleOrigin::File && !rule.overridesInherited;
        if (rule.dropped && !refused) // dropped before inherited keys are looked at
            continue;
        std::string message = "the key " + inTicks(shortened(rule.rule.key, 100)) + nameInFile(context, rule) +
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
            return other.documentIndex && other.expert == rule.expert && other.rule.key == correction.key;
        });
        if (document && rule.documentIndex && !correction.key.empty() && !taken)
            finding.fix = Fix{"rename the key to " + inTicks(correction.key),
                              {renameKeyEdit(*document, *rule.documentIndex, correction.key, partOf(rule))}};
    }
    if (!unmatchedConfig.empty() && !configMatches)
        findings.add(code::nothingMatches,
                     "none of the " + std::to_string(unmatchedConfig.size()) + " rules of base_model_tp_plan in " +
                         context.model.config.fileName() + " matches a name of " + context.model.className +
                         ": the layers stay whole on every rank");
}

std::string styleIn(const std::vector<PlanRule> &rules, const LintContext &context, const std::string &key) {
    for (const PlanRule &rule : rules)
        if (context.model.baseModelPrefix + "." + rule.key == key)
            return rule.style;
    return plainStyle();
}

std::string builtinTpStyle(const LintContext &context, const std::string &key) {
    return context.builtin ? styleIn(context.builtin->configRules, context, key) : plainStyle();
}

std::string builtinEpStyle(const LintContext &context, const std::string &key) {
    return context.builtin ? styleIn(context.builtin->configEpRules, context, key) : plainStyle();
}

void expertRules(const LintContext &context, Findings &findings) {
    for (const EffectiveRule &rule : context.plan.rules) {
        if (rule.expert || rule.dropped || !rule.style || !rule.style->expertParallel || !rule.matches)
            continue;
        Diagnostic &finding =
            findings.add(code::expertStyle, inTicks(rule.rule.style) + " on " + inTicks(rule.rule.key) +
                                                " is an expert-parallel style and belongs in ep_plan, not in tp_plan");
        blame(finding, rule);
        addModules(context, finding, rule.modules);
        finding.fix = fixOf(context, {{rule.rule.key, builtinTpStyle(context, rule.rule.key)}});
        if (rule.style->refusedInTpPlan && !rule.modules.empty())
            findings.reject();
    }
}

// Asked for or not: upstream looks at the keys of an ep_plan even where it does not apply it.
void unusedEpPlan(const LintContext &context, Findings &findings) {
    if (context.plan.ep > 1)
        return;
    for (const PlanRule &rule : context.plan.epUnmatched) {
        Diagnostic &finding = findings.add(code::unmatchedKey, "the key " + inTicks(rule.key) +
                                                                   " of the ep_plan matches nothing in " +
                                                                   context.model.className);
        finding.rule = rule.key;
        finding.span = rule.keySpan;
        findings.reject();
    }
    const PlanDocument *document = context.document();
    if (!document || document->epRules.empty())
        return;
    Diagnostic &finding = findings.add(
        code::epPlanUnused,
        "the ep_plan is not applied: that takes an expert-parallel size (--ep, or ep_size in the plan) above 1");
    finding.rule = document->epRules.front().key;
    finding.span = document->epRules.front().keySpan;
}

// Source: transformers 5.24 DistributedConfig._validate_mesh_config; without FSDP, of which a plan says nothing.
void epSize(const LintContext &context, Findings &findings) {
    const int ep = context.plan.ep;
    if (ep == 1 || (ep >= 1 && ep == context.tp))
        return;
    const std::string sizes = "ep size " + std::to_string(ep) + " at tp " + std::to_string(context.tp) + ": ";
    Diagnostic &finding = findings.add(
        code::badEpSize,
        sizes + (ep < 1                ? "parallel sizes are at least 1"
                 : ep % context.tp > 0 ? "ep_size must be a multiple of tp_size"
                                       : "without FSDP the ranks that share the experts are the tp ranks"));
    finding.fix = Fix{"use ep " + std::to_string(context.tp), {}};
    findings.reject();
}

void epPlan(const LintContext &context, Findings &findings) {
    const ResolvedPlan &plan = context.plan;
    if (plan.ep <= 1)
        return;
    if (plan.epRules.empty()) {
        findings.add(code::noEpPlan, "there is no ep_plan for " + context.model.className + " at ep " +
                                         std::to_string(plan.ep) + ": upstream refuses to load it");
        findings.reject();
    }
    for (const EffectiveRule &rule : plan.rules) {
        if (!rule.expert || !removedFromEpPlan(rule.rule.style))
            continue;
        Diagnostic &finding = findings.add(
            code::removedEpStyle, inTicks(rule.rule.style) + " on " + inTicks(rule.rule.key) +
                                      " is refused in an ep_plan: experts are dealt out by `ep_dispatch_experts` on "
                                      "their module and `grouped_gemm` on its parameters, and a router needs no rule");
        blame(finding, rule);
        finding.fix = fixOf(context, {{rule.rule.key, builtinEpStyle(context, rule.rule.key), PlanPart::Ep}});
        findings.reject();
    }
    for (const std::string &name : plan.cutTwice) {
        const EffectiveRule &rule = *plan.ruleOfParameter(name);
        Diagnostic &finding = findings.add(code::cutTwice, inTicks(genericName(name)) + " is sharded by " +
                                                               inTicks(rule.rule.key) + " of the ep_plan (" +
                                                               rule.rule.style + ") and by a rule of the tp_plan");
        blame(finding, rule);
        finding.fix = fixOf(context, {{rule.rule.key, plainStyle(), PlanPart::Ep}});
        findings.reject();
    }
    if (plan.appliesEpPlan || plan.epRules.empty())
        return;
    Diagnostic &finding = findings.add(
        code::idleEpPlan, "no rule of the ep_plan dispatches tokens (ep_dispatch_experts): upstream applies none of its "
                          "rules, and what they name stays whole on every rank");
    for (const EffectiveRule &rule : plan.rules)
        if (rule.expert && rule.documentIndex && !finding.span.valid())
            blame(finding, rule);
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
        for (const Parameter &parameter : module.parameters) {
            const ParallelStyle *own = context.plan.styleOfParameter(
                module.name.empty() ? parameter.name : module.name + "." + parameter.name);
            if (style.tokenShards && own && own->weightAxis != ParallelStyle::WeightAxis::None)
                return inTicks(parameter.name) + " is sharded by another rule (" + std::string(own->name) +
                       "), and the style wraps whole parameters only";
        }
        if (style.dispatchesTokens && rule.expert && !module.attributes.contains("num_experts"))
            return module.className + " has no `num_experts`: tokens are dispatched to experts";
    }
    for (const std::string &name : rule.parameters) {
        const std::size_t dot = name.rfind('.');
        const Module *owner = context.model.tree.find(dot == std::string::npos ? "" : name.substr(0, dot));
        const Parameter *parameter = owner ? owner->parameter(name.substr(dot + 1)) : nullptr;
        if (!parameter)
            continue;
        const ParameterShard *shard = context.shards.find(name);
        if (shard && shard->placement.kind == PlacementKind::StridedShard && !parameter->storedInParts() &&
            std::ranges::any_of(shard->held, [](const auto &held) { return held.empty(); }))
            return "some rank would hold nothing of " + inTicks(genericName(name)) +
                   ", and the loader cannot read an empty part of a packed weight";
        if (style.needsTwoDims && parameter->shape.size() < 2)
            return inTicks(genericName(name)) + " has one dimension, the style cuts the second";
    }
    return {};
}

// What a style that deals out whole experts refuses: a number of them that the ranks do not divide.
void unevenExperts(const LintContext &context, Findings &findings) {
    for (const EffectiveRule &rule : context.plan.rules) {
        if (!rule.style || !rule.style->evenOnly)
            continue;
        for (const std::string &name : rule.parameters) {
            const std::int64_t experts = dealtExperts(context.model, rule, name);
            if (experts % context.tp == 0)
                continue;
            Diagnostic &finding = findings.add(
                code::refusedStyle, inTicks(rule.rule.style) + " on " + inTicks(rule.rule.key) +
                                        " is refused at load: " + std::to_string(experts) + " experts are not divisible by " +
                                        std::to_string(context.tp) + " ranks");
            blame(finding, rule);
            if (rule.rule.styleSpan.valid())
                finding.span = rule.rule.styleSpan;
            finding.modules = {genericName(name.substr(0, name.rfind('.')))};
            std::vector<int> sizes;
            for (int size = 1; size <= std::min<std::int64_t>(experts, 64); ++size)
                if (experts % size == 0)
                    sizes.push_back(size);
            finding.fix = Fix{"use a size that divides the experts: " + list(sizes), {}};
            findings.rejectSize();
            break; // a rule says it once
        }
    }
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
        finding.fix = fixOf(context, {{rule.rule.key, plainStyle(), partOf(rule)}});
        findings.reject();
    }
}

} // namespace

void checkLoad(const LintContext &context, Findings &findings) {
    tpSize(context, findings);
    documentFacts(context, findings);
    emptyOrMissing(context, findings);
    epSize(context, findings);
    if (const PlanDocument *document = context.document()) {
        duplicateKeys(context.plan.duplicates, document->rules, findings);
        duplicateKeys(context.plan.epDuplicates, document->epRules, findings);
    }
    unmatchedKeys(context, findings);
    unknownStyles(context, findings);
    expertRules(context, findings);
    unusedEpPlan(context, findings);
    epPlan(context, findings);
    refusedStyles(context, findings);
    unevenExperts(context, findings);
}

} // namespace tpscope
