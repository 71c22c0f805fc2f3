// SPDX-License-Identifier: GPL-3.0-or-later
// What transformers 5.24 says of experts when the model is loaded: expert-parallel styles, sizes and plans. Source:
// distributed/mixin.py _resolve_parallel_plans, distributed/expert_parallel.py.
#include <algorithm>

#include "lint/fixes.h"

namespace tpscope {
namespace {

// The module whose parameters are dealt out: rules of one are mended together, since half of them is no plan.
std::string expertsOf(const EffectiveRule &rule) {
    return rule.modules.empty() ? rule.rule.key.substr(0, rule.rule.key.rfind('.')) : rule.rule.key;
}

void expertRules(const LintContext &context, Findings &findings) {
    std::vector<const EffectiveRule *> misplaced;
    for (const EffectiveRule &rule : context.plan.rules)
        if (!rule.expert && !rule.dropped && rule.style && rule.style->expertParallel && rule.matches)
            misplaced.push_back(&rule);
    for (const EffectiveRule *rule : misplaced) {
        std::string message = inTicks(rule->rule.style) + " on " + inTicks(rule->rule.key) +
                              " is an expert-parallel style and belongs in ep_plan, not in tp_plan";
        message += rule->style->evenOnly
                       ? ": each rank holds other experts, and nothing brings a token to the rank of its experts"
                       : ": there its tokens would find no ranks of experts to go to";
        Diagnostic &finding = findings.add(code::expertStyle, std::move(message));
        blame(finding, *rule);
        addModulesOf(context, finding, *rule);
        std::vector<RuleChange> changes;
        for (const EffectiveRule *other : misplaced)
            if (expertsOf(*other) == expertsOf(*rule))
                changes.push_back({other->rule.key, builtinTpStyle(context, other->rule.key)});
        finding.fix = fixOf(context, changes);
        if (rule->style->refusedInTpPlan && !rule->modules.empty())
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

} // namespace

void checkExpertRules(const LintContext &context, Findings &findings) {
    epSize(context, findings);
    expertRules(context, findings);
    unusedEpPlan(context, findings);
    epPlan(context, findings);
    unevenExperts(context, findings);
}

} // namespace tpscope
