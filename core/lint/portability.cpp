// SPDX-License-Identifier: GPL-3.0-or-later
// Whether the plan means the same to another program that reads it (resources/targets).
#include <algorithm>

#include "lint/fixes.h"
#include "lint/target.h"

namespace tpscope {
namespace {

// The newest version that was looked into stands for those after it.
std::string numberOf(const DeploymentTarget &target, const TargetVersion &version) {
    return version.version + (target.newest == version.version ? " on" : "");
}

std::string titled(const DeploymentTarget &target, const TargetVersion &version) {
    return target.title + " (" + version.version + ")";
}

// Another name of the same style that each version knows; "": none.
std::string commonName(const DeploymentTarget &target, const ParallelStyle &style) {
    for (const ParallelStyle &other : parallelStyles()) {
        const std::string name(other.name);
        if (other.canonical == style.canonical &&
            std::ranges::all_of(target.versions, [&](const TargetVersion &v) { return v.knows(name) != nullptr; }))
            return name;
    }
    return {};
}

std::string sentence(const DeploymentTarget &target, const ParallelStyle &style, const std::string &key) {
    const std::string name(style.name);
    std::vector<std::string> unknown, known;
    const TargetVersion *first = nullptr;
    for (const TargetVersion &version : target.versions) {
        const std::string *does = version.knows(name);
        const std::string number = numberOf(target, version);
        (does ? known : unknown).push_back(does ? number + " (" + *does + ")" : number);
        if (!does && !first)
            first = &version;
    }
    std::string out = target.title + " does not know the style " + inTicks(name) + " of " + inTicks(key) +
                      (unknown.size() > 1 ? " in versions " : " in version ") + list(unknown) + ": " +
                      first->unknownStyle;
    if (!known.empty())
        out += "; it is known in " + list(known);
    return out;
}

void unknownStyles(const LintContext &context, const DeploymentTarget &target, Findings &findings) {
    for (const EffectiveRule &rule : context.plan.rules) {
        if (!rule.style || rule.dropped || !rule.matches)
            continue;
        const std::string name(rule.style->name);
        if (std::ranges::all_of(target.versions, [&](const TargetVersion &v) { return v.knows(name) != nullptr; }))
            continue;
        Diagnostic &finding = findings.add(code::targetStyle, sentence(target, *rule.style, rule.rule.key));
        blame(finding, rule);
        if (rule.rule.styleSpan.valid())
            finding.span = rule.rule.styleSpan;
        addModules(context, finding, rule.modules);
        const std::string common = commonName(target, *rule.style);
        if (!common.empty())
            finding.fix = fixOf(context, {{rule.rule.key, common, rule.expert ? PlanPart::Ep : PlanPart::Tp}});
    }
}

bool isVocabulary(const LintContext &context, const ParameterShard &shard) {
    return shard.globalShape.size() == 2 && shard.globalShape.front() == context.model.dims.vocab &&
           genericName(shard.name).find('*') == std::string::npos;
}

std::vector<int> sizesFor(std::int64_t size) {
    std::vector<int> sizes;
    for (int tp = 1; tp <= 64; ++tp)
        if (size % tp == 0)
            sizes.push_back(tp);
    return sizes;
}

void vocabulary(const LintContext &context, const DeploymentTarget &target, const TargetVersion &version,
                Findings &findings) {
    if (!version.vocabularyPadding)
        return;
    const std::int64_t padding = *version.vocabularyPadding, size = context.model.dims.vocab;
    const std::int64_t padded = (size + padding - 1) / padding * padding;
    if (size <= 0 || padded % context.tp == 0)
        return;
    const std::string shown =
        padded == size ? std::to_string(size) : std::to_string(size) + ", padded to " + std::to_string(padded) + ",";
    Diagnostic &finding = findings.add(
        code::targetDivides, titled(target, version) + " wants a vocabulary that the ranks divide: " + shown +
                                 " is not divisible by " + std::to_string(context.tp) +
                                 "; transformers gives the last rank less, this target refuses the model");
    for (const ParameterShard &shard : context.shards.parameters) {
        const std::string module = shard.name.substr(0, shard.name.rfind('.'));
        if (isVocabulary(context, shard) && std::ranges::find(finding.modules, module) == finding.modules.end())
            finding.modules.push_back(module);
    }
    finding.fix = Fix{"use a tp size that divides it: " + list(sizesFor(padded)), {}};
}

// One finding for all layers: they share the reason.
void features(const LintContext &context, const DeploymentTarget &target, const TargetVersion &version,
              Findings &findings) {
    std::vector<std::string> modules, texts;
    const EffectiveRule *rule = nullptr;
    for (const ParameterShard &shard : context.shards.parameters) {
        const auto dim = static_cast<std::size_t>(std::max(shard.dim, 0));
        const std::size_t dot = shard.name.rfind('.');
        const Module *module = dot == std::string::npos ? nullptr : context.model.tree.find(shard.name.substr(0, dot));
        if (shard.dim < 0 || !module || !module->isLinear || isVocabulary(context, shard) ||
            shard.globalShape.size() < 2 || shard.globalShape[dim] % context.tp == 0)
            continue;
        const std::string name = genericName(module->name);
        if (std::ranges::find(modules, name) != modules.end())
            continue;
        modules.push_back(name);
        texts.push_back(std::to_string(shard.globalShape[dim]) + " of " + inTicks(name));
        if (const EffectiveRule *own = context.plan.ruleOfParameter(shard.name);
            own && (!rule || (own->rule.keySpan.valid() && !rule->rule.keySpan.valid())))
            rule = own;
    }
    if (!version.evenFeatures || modules.empty())
        return;
    Diagnostic &finding = findings.add(code::targetDivides,
                                       titled(target, version) + " cuts linear layers evenly or not at all, and " +
                                           std::to_string(context.tp) + " ranks do not divide the features: " +
                                           list(texts));
    finding.modules = std::move(modules);
    if (rule)
        blame(finding, *rule);
}

} // namespace

void checkPortability(const LintContext &context, Findings &findings) {
    const DeploymentTarget *target = context.options.target.get();
    if (!target || context.tp <= 1)
        return;
    unknownStyles(context, *target, findings);
    vocabulary(context, *target, target->versions.front(), findings);
    features(context, *target, target->versions.front(), findings);
}

} // namespace tpscope
