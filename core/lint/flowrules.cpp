// SPDX-License-Identifier: GPL-3.0-or-later
// Findings of the forward: where layouts do not meet, and what would mend it.
#include <algorithm>

#include "lint/expertstories.h"
#include "lint/layoutstories.h"

namespace tpscope {
namespace {

std::vector<ModuleIndex> modulesOf(const FlowFinding &finding) {
    std::vector<ModuleIndex> modules;
    for (const FlowSide &side : finding.sides)
        if (std::ranges::find(modules, side.module) == modules.end())
            modules.push_back(side.module);
    if (std::ranges::find(modules, finding.module) == modules.end() && modules.size() < 2)
        modules.push_back(finding.module);
    return modules;
}

// The module computes with another module's tensor, sharded by that one's rule.
std::optional<Told> tied(const LintContext &context, const FlowFinding &finding) {
    for (const Tie &tie : context.model.tree.ties) {
        const auto moduleOf = [](const std::string &name) { return name.substr(0, name.rfind('.')); };
        const std::string &here = context.model.tree.at(finding.module).name;
        if (moduleOf(tie.target) != here && moduleOf(tie.source) != here)
            continue;
        const Module *target = context.model.tree.find(moduleOf(tie.target));
        const Module *source = context.model.tree.find(moduleOf(tie.source));
        const Parameter *weight = source ? source->parameter(tie.source.substr(tie.source.rfind('.') + 1)) : nullptr;
        if (!weight || !target ||
            placementOf(context.plan.styleOfParameter(tie.source), weight->name, weight->shape) ==
                placementOf(context.plan.styleOfParameter(tie.target), weight->name, weight->shape))
            continue;
        const ModuleIndex sourceIndex = *context.model.tree.indexOf(source->name);
        const ModuleIndex targetIndex = *context.model.tree.indexOf(target->name);
        Candidates candidates;
        // Back to one of the two placements: mend the rule of the file first.
        const EffectiveRule *own = context.plan.ruleOfModule(targetIndex);
        const bool targetWritten = own && own->rule.keySpan.valid();
        for (const ModuleIndex index : targetWritten ? std::vector{targetIndex, sourceIndex}
                                                     : std::vector{sourceIndex, targetIndex}) {
            for (auto &changes : otherStyles(context, index))
                candidates.push_back(std::move(changes));
            for (const ParallelStyle &style : parallelStyles())
                candidates.push_back({{folded(context, index), std::string(style.name)}});
        }
        const std::string plain = plainStyle();
        candidates.push_back({{source->name, plain}, {target->name, plain}});
        return Told{code::tiedApart,
                    inTicks(target->name) + " is tied to " + inTicks(source->name) + ", but " +
                        withRule(context, sourceIndex) + " and " + withRule(context, targetIndex) +
                        " place the shared weight differently; upstream ties after sharding, so both use the placement "
                        "of the first, and " +
                        consequence(finding),
                    std::move(candidates),
                    {sourceIndex, targetIndex}};
    }
    return std::nullopt;
}

// Projections of one attention with as many heads fail for one reason.
bool sameHeads(const FlowFinding &a, const FlowFinding &b) {
    return a.cause == FlowCause::HeadsCut && b.cause == FlowCause::HeadsCut && a.module == b.module &&
           a.sides.front().holds == b.sides.front().holds;
}

Told headsCut(const LintContext &context, const FlowFinding &finding) {
    const Module &attention = context.model.tree.at(finding.module);
    const FlowSide &side = finding.sides.front();
    const std::int64_t headDim = std::max<std::int64_t>(1, attention.integer("head_dim"));
    const std::int64_t heads = side.holds.extent() / headDim;
    const bool keyHeads = heads != attention.integer("num_attention_heads", heads);
    const std::string kind = std::string(keyHeads ? "key/value head" : "attention head") + (heads == 1 ? "" : "s");
    std::vector<std::string> projections;
    for (const FlowFinding &other : context.forward.findings)
        if (std::string projection; sameHeads(finding, other)) {
            projection = withRule(context, other.sides.front().module);
            if (std::ranges::find(projections, projection) == projections.end())
                projections.push_back(std::move(projection));
        }
    std::string sizes;
    for (int r = 0; r < std::min(side.holds.ranks(), 4); ++r)
        sizes += (r ? ", " : "") + std::to_string(side.holds.width(r));
    sizes += side.holds.ranks() > 4 ? ", ... channels" : " channels";
    const std::string count = std::to_string(heads) + " " + kind;
    if (heads % context.tp == 0) // whole heads would do
        return tellFusedCut(context, finding, "of the " + count + " the ranks get " + sizes);
    return {keyHeads ? code::kvHeadsCut : code::headsCut,
            count + (heads == 1 ? " is" : " are") + " not divisible by tp " + std::to_string(context.tp) + ": " +
                list(projections) + (projections.size() > 1 ? " leave" : " leaves") + " the ranks " + sizes +
                ", and a head has " + std::to_string(headDim) + validSizesText(context),
            {gatherAttention(context, finding.module)}};
}

Told headsPaired(const LintContext &context, const FlowFinding &finding) {
    std::vector<std::string> sides;
    for (const FlowSide &side : finding.sides)
        sides.push_back(sideText(context, side));
    std::string message = finding.cause == FlowCause::HeadCounts
                              ? "the local query heads cannot be paired with the local key/value heads: "
                              : "query heads meet the wrong key/value heads: attention pairs them by position on the rank, but ";
    message += list(sides) + "; " + consequence(finding);
    Candidates candidates;
    for (const FlowSide &side : finding.sides)
        for (auto &changes : builtinStyle(context, side.module))
            candidates.push_back(std::move(changes));
    candidates.push_back(alikeAttention(context, finding.module));
    candidates.push_back(gatherAttention(context, finding.module));
    return {code::headsApart, std::move(message), std::move(candidates)};
}

Told summedTwice(const LintContext &context, const FlowFinding &finding) {
    std::string message = withRule(context, finding.module);
    const std::string tp = std::to_string(context.tp);
    switch (finding.cause) {
    case FlowCause::DividedWhole:
        message += " divides its input by " + tp + ", and nothing sums the output over the ranks";
        break;
    case FlowCause::ReducedParts:
        message += " sums different channels of the ranks";
        if (!finding.sides.empty())
            message += ": each has " + finding.sides.front().holds.text() + " channels";
        break;
    default: message += " sums over the ranks what each of them already has whole: " + tp + " times too large"; break;
    }
    return {code::reducedTwice, message + "; " + consequence(finding),
            {{{folded(context, finding.module), plainStyle()}}}};
}

Told scaleHidden(const LintContext &context, const FlowFinding &finding) {
    const std::string from = finding.sides.empty() ? "its input" : "what " + withRule(context, finding.sides.front().module) + " gives";
    return {code::scaleHidden,
            withRule(context, finding.module) + " norms " + from + ", off by a factor of the number of ranks: that drops out "
                "but for the norm's eps, so the logits are right only as far as the values are large against it",
            otherStyles(context, finding.sides.empty() ? finding.module : finding.sides.front().module)};
}

Told callForm(const LintContext &context, const FlowFinding &finding) {
    Candidates cancel = {{{folded(context, finding.module), plainStyle()}}};
    for (auto &changes : otherStyles(context, finding.module))
        cancel.push_back(std::move(changes));
    const std::string here = withRule(context, finding.module);
    const std::string end = "; " + consequence(finding);
    switch (finding.cause) {
    case FlowCause::KeywordInput:
        return {code::callForm, here + " reads its first positional argument, but the module is called with keywords" + end,
                cancel};
    case FlowCause::TupleOutput:
        return {code::callForm, here + " changes the output, which is not one tensor here" + end, cancel};
    case FlowCause::OutputAttribute:
        return {code::callForm, here + " reads " + inTicks(finding.parameter) + ", which the module lacks" + end, cancel};
    case FlowCause::ConfigKey:
        return {code::missingKey, here + " needs the key " + inTicks(finding.parameter) + ", and " +
                                      context.model.config.fileName() + " has none" + end,
                cancel};
    case FlowCause::SequenceInput:
        return {code::callForm, here + " gets pieces of a sequence and joins them to " + std::to_string(context.tp) +
                                    " times the tokens" + end,
                cancel};
    case FlowCause::VocabularyRows:
        return {code::callForm, here + " looks up whole token ids in its " + finding.sides.front().holds.text() +
                                    " rows" + end,
                otherStyles(context, finding.module)};
    default: return {code::callForm, here + " divides token ids" + end, cancel};
    }
}

Told biasRepeated(const LintContext &context, const FlowFinding &finding) {
    return {code::biasRepeated,
            withRule(context, finding.module) + " adds " + inTicks(finding.parameter) +
                " on each rank before the sum: it counts " + std::to_string(context.tp) + " times",
            otherStyles(context, finding.module)};
}

Told experts(const LintContext &context, const FlowFinding &finding) {
    ExpertStory story = tellExperts(context, finding, consequence(finding));
    return {story.code, std::move(story.message), std::move(story.candidates)};
}

Told tell(const LintContext &context, const FlowFinding &finding) {
    if (auto told = tied(context, finding))
        return std::move(*told);
    switch (finding.cause) {
    case FlowCause::HeadsCut: return headsCut(context, finding);
    case FlowCause::HeadCounts:
    case FlowCause::HeadsApart: return headsPaired(context, finding);
    case FlowCause::ExpertsCut:
    case FlowCause::ExpertCount:
    case FlowCause::ExpertBiasWhole:
    case FlowCause::ExpertShards:
    case FlowCause::DispatchCall:
    case FlowCause::Misaligned: return experts(context, finding);
    case FlowCause::SlicedApart: return tellSlices(context, finding);
    case FlowCause::OperandWidth:
    case FlowCause::OperandChannels: return tellOperands(context, finding);
    case FlowCause::ReducedWhole:
    case FlowCause::ReducedParts:
    case FlowCause::DividedWhole:
    case FlowCause::OperandScale: return summedTwice(context, finding);
    case FlowCause::ScaleHidden: return scaleHidden(context, finding);
    case FlowCause::MixedTensors: return tellMixedTensors(context, finding);
    case FlowCause::PartialUsed: return tellPartial(context, finding);
    case FlowCause::GatherWidth:
    case FlowCause::GatherChannels: return tellGather(context, finding);
    case FlowCause::PartOfOutput: return tellPartOfOutput(context, finding);
    case FlowCause::BiasRepeated: return biasRepeated(context, finding);
    case FlowCause::KeywordInput:
    case FlowCause::TupleOutput:
    case FlowCause::OutputAttribute:
    case FlowCause::ConfigKey:
    case FlowCause::SequenceInput:
    case FlowCause::VocabularyRows:
    case FlowCause::FractionalIds: return callForm(context, finding);
    default: return tellLayouts(context, finding);
    }
}

// Already told of the rule itself, or its consequence: sums of experts that nothing brought tokens to.
bool follows(const LintContext &context, const FlowFinding &finding) {
    const auto misplaced = [&](const FlowFinding &other) {
        if (other.cause != FlowCause::ExpertsCut)
            return false;
        const EffectiveRule *rule =
            context.plan.ruleOfParameter(context.model.tree.at(other.module).name + "." + other.parameter);
        return rule && !rule->expert && rule->style && rule->style->expertParallel;
    };
    if (finding.cause == FlowCause::ReducedWhole)
        return std::ranges::any_of(context.forward.findings, [&](const FlowFinding &other) {
            return other.module == finding.module && misplaced(other);
        });
    return misplaced(finding);
}

} // namespace

void checkForward(const LintContext &context, Findings &findings) {
    constexpr int mostFixes = 8; // each candidate is a run of the flow
    int fixes = 0;
    std::vector<const FlowFinding *> told;
    for (const FlowFinding &finding : context.forward.findings) {
        if (finding.harmless || follows(context, finding) ||
            std::ranges::any_of(told, [&](const FlowFinding *other) { return sameHeads(finding, *other); }))
            continue;
        told.push_back(&finding);
        Told story = tell(context, finding);
        Diagnostic &diagnostic = findings.add(story.code, std::move(story.message));
        std::vector<ModuleIndex> modules = story.modules.empty() ? modulesOf(finding) : story.modules;
        for (const FlowFinding &other : context.forward.findings)
            if (sameHeads(finding, other))
                modules.insert(modules.end() - 1, other.sides.front().module);
        addModules(context, diagnostic, modules);
        blame(context, diagnostic, modules);
        if (fixes++ < mostFixes)
            diagnostic.fix = provenFix(context, finding, false, story.candidates);
    }
}

} // namespace tpscope
