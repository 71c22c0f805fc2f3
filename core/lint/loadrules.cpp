// SPDX-License-Identifier: GPL-3.0-or-later
// What transformers 5.24 says of a plan when the model is loaded. Source: distributed/mixin.py _resolve_parallel_plans
// and _validate_parallel_plan, install_forward and shard_param of the styles.
#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "lint/fixes.h"
#include "plan/planrepairs.h"

namespace tpscope {
namespace {

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

// Source: transformers 5.21 and 5.24 distributed/utils.py initialize_distributed_mesh. Before DistributedConfig,
// upstream fell back to CPU and Gloo with a warning.
void device(const LintContext &context, Findings &findings) {
    constexpr std::string_view withoutMesh = "mps";
    if (context.tp <= 1 || context.options.device != withoutMesh)
        return;
    Diagnostic &finding = findings.add(
        code::badDevice, "transformers " + context.options.upstream.text() +
                             " refuses a tp size above 1 on mps (\"Tensor parallelism is not supported on MPS "
                             "devices.\"); versions before DistributedConfig fell back to CPU and Gloo");
    finding.fix = Fix{"run on the CPU with Gloo, or on one rank", {}};
    findings.reject();
}

void emptyOrMissing(const LintContext &context, Findings &findings) {
    const ResolvedPlan &plan = context.plan;
    if (!plan.configPlanProblem.empty()) {
        findings.add(code::brokenConfigPlan, plan.configPlanProblem);
        findings.reject();
    }
    if (plan.emptyMapping && context.tp > 1) {
        Diagnostic &finding =
            findings.add(code::emptyPlan, "`tp_plan: {}` is refused at tp " + std::to_string(context.tp) +
                                              ": upstream says the model \"has no `tp_plan`\", although its "
                                              "documentation takes {} for no tensor parallelism");
        if (const auto place = context.document() ? emptyPlanPlace(*context.document()) : std::nullopt) {
            finding.span = place->key;
            finding.rule = "tp_plan";
            if (context.builtin)
                finding.fix = Fix{"write `tp_plan: auto`, the built-in plan", {place->automatic}};
        }
        if (!finding.fix)
            finding.fix = Fix{"leave tp_plan out to use the built-in plan, or run with tp 1", {}};
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

// The plan that keeps one of the rules with one key.
ResolvedPlan keeping(const LintContext &context, const std::vector<std::size_t> &group, std::size_t kept,
                     PlanPart part) {
    PlanChoice choice = context.choice;
    choice.ep = context.plan.ep;
    std::vector<PlanRule> &rules = part == PlanPart::Tp ? choice.document->rules : choice.document->epRules;
    for (std::size_t i = group.size(); i-- > 0;)
        if (group[i] != kept)
            rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(group[i]));
    return resolvePlan(context.model, choice, context.builtin, context.plan.tp);
}

bool runsRight(const LintContext &context, const ResolvedPlan &plan) {
    FlowOptions options;
    options.attention = context.attention();
    options.promptTokens = context.options.promptTokens;
    options.paddedPrompts = context.options.paddedPrompts;
    options.stopAtError = true;
    const FlowResult result = LayoutFlow(context.model, plan).run(context.tp, options);
    return result.right();
}

// The last one counts, so deleting the others changes nothing; unless another one makes the plan right.
std::size_t worthKeeping(const LintContext &context, const std::vector<std::size_t> &group, PlanPart part) {
    if (context.model.flowKnown())
        for (std::size_t i = group.size(); i-- > 0;)
            if (runsRight(context, keeping(context, group, group[i], part)))
                return group[i];
    return group.back();
}

void duplicateKeys(const LintContext &context, PlanPart part, Findings &findings) {
    const PlanDocument &document = *context.document();
    const std::vector<PlanRule> &rules = part == PlanPart::Tp ? document.rules : document.epRules;
    const auto &groups = part == PlanPart::Tp ? context.plan.duplicates : context.plan.epDuplicates;
    constexpr std::size_t mostJudged = 8; // each is a run of the flow
    for (std::size_t g = 0; g < std::min(groups.size(), mostOfAKind); ++g) {
        const std::vector<std::size_t> &group = groups[g];
        std::vector<std::string> lines;
        for (const std::size_t index : group)
            lines.push_back(std::to_string(rules[index].keySpan.line));
        const PlanRule &last = rules[group.back()];
        Diagnostic &finding =
            findings.add(code::duplicateKey, "the key " + inTicks(last.key) + " stands on lines " + list(lines) +
                                                 "; only the last one counts (" + last.style + ")");
        finding.rule = last.key;
        finding.span = last.keySpan;
        for (const EffectiveRule &rule : context.plan.rules)
            if (rule.rule.key == last.key && partOf(rule) == part)
                addModulesOf(context, finding, rule);
        if (group.size() > mostJudged)
            continue;
        const std::size_t kept = g < mostJudged ? worthKeeping(context, group, part) : group.back();
        if (auto edits = removeRuleEdits(document, group, kept, part); !edits.empty())
            finding.fix = Fix{"keep the rule of line " + std::to_string(rules[kept].keySpan.line) + " (" +
                                  rules[kept].style + ")",
                              std::move(edits)};
    }
}

// An edit reads the text anew: of a plan of megabytes only the first findings get one.
bool worthEditing(const PlanDocument &document, std::size_t findings) {
    constexpr std::size_t bytesRead = 1'000'000;
    return findings <= 1 || document.text.size() * findings <= bytesRead;
}

// The style that was most likely meant: the nearest name, else the one the key has without the rule.
std::string styleFor(const LintContext &context, const EffectiveRule &rule) {
    if (const std::string_view near = nearestStyle(rule.rule.style); !near.empty())
        return std::string(near);
    if (!rule.matches)
        return {};
    return rule.expert ? builtinEpStyle(context, rule.rule.key) : builtinTpStyle(context, rule.rule.key);
}

void unknownStyles(const LintContext &context, Findings &findings) {
    bool first = true;
    std::size_t count = 0;
    for (const EffectiveRule &rule : context.plan.rules) {
        if (rule.style || rule.dropped || (rule.expert && removedFromEpPlan(rule.rule.style)))
            continue;
        if (++count > mostOfAKind)
            continue;
        const std::string nearestName = styleFor(context, rule);
        std::string message = rule.rule.styleIsText
                                  ? "unknown style \"" + shortened(rule.rule.style) + "\""
                                  : "the style must be text, found " + shortened(rule.rule.style);
        message += " for " + inTicks(rule.rule.key) + nameInFile(context, rule);
        if (!nearestName.empty())
            message +=
                (nearestStyle(rule.rule.style).empty() ? "; without it the key has " : "; nearest: ") + nearestName;
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
        addModulesOf(context, finding, rule);
        if (!nearestName.empty() && (!context.document() || worthEditing(*context.document(), count)))
            finding.fix = fixOf(context, {{rule.rule.key, nearestName, partOf(rule)}});
        findings.reject();
    }
    if (count > mostOfAKind)
        findings.add(code::unknownStyle, std::to_string(count - mostOfAKind) + " more rules have unknown styles");
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

std::int64_t largestRank(const ShardLayout &shards) {
    return shards.bytesPerRank.empty() ? 0 : *std::ranges::max_element(shards.bytesPerRank);
}

std::int64_t wholeModel(const ShardLayout &shards) {
    std::int64_t bytes = 0;
    for (const ParameterShard &shard : shards.parameters)
        bytes += elementCount(shard.globalShape) * static_cast<std::int64_t>(elementSize(shard.dtype));
    return bytes;
}

void unmatchedKeys(const LintContext &context, Findings &findings) {
    std::vector<std::string> names;
    bool configMatches = false;
    std::vector<const EffectiveRule *> unmatchedConfig;
    std::size_t count = 0, refusals = 0;
    for (const EffectiveRule &rule : context.plan.rules) {
        const bool fromConfig = !rule.expert && context.plan.baseMode == "config" &&
                                rule.rule.origin == RuleOrigin::ConfigPlan;
        configMatches = configMatches || (fromConfig && rule.matches);
        if (rule.matches)
            continue;
        if (fromConfig)
            unmatchedConfig.push_back(&rule);
        const bool refused = rule.rule.origin == RuleOrigin::File && !rule.overridesInherited;
        if (rule.dropped && !refused) // dropped before inherited keys are looked at
            continue;
        refusals += refused;
        if (++count > mostOfAKind)
            continue;
        if (names.empty())
            names = allNames(context);
        const Correction correction = correct(context, rule.rule.key, names);
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
        if (document && rule.documentIndex && !correction.key.empty() && !taken && worthEditing(*document, count))
            finding.fix = Fix{"rename the key to " + inTicks(correction.key),
                              {renameKeyEdit(*document, *rule.documentIndex, correction.key, partOf(rule))}};
    }
    if (count > mostOfAKind)
        findings.add(refusals > 0 ? code::unmatchedKey : code::unmatchedInherited,
                     std::to_string(count - mostOfAKind) + " more keys match nothing in " + context.model.className);
    if (refusals > 0)
        findings.reject();
    if (!unmatchedConfig.empty() && !configMatches)
        findings.add(code::nothingMatches,
                     "none of the " + std::to_string(unmatchedConfig.size()) + " rules of base_model_tp_plan in " +
                         context.model.config.fileName() + " matches a name of " + context.model.className +
                         ": the layers stay whole on every rank, " +
                         formatBytes(static_cast<std::uint64_t>(largestRank(context.shards))) + " of " +
                         formatBytes(static_cast<std::uint64_t>(wholeModel(context.shards))));
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
    device(context, findings);
    documentFacts(context, findings);
    emptyOrMissing(context, findings);
    if (context.document()) {
        duplicateKeys(context, PlanPart::Tp, findings);
        duplicateKeys(context, PlanPart::Ep, findings);
    }
    unmatchedKeys(context, findings);
    unknownStyles(context, findings);
    checkExpertRules(context, findings);
    refusedStyles(context, findings);
}

} // namespace tpscope
