// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/layoutstories.h"

#include <algorithm>

#include "lint/attentionparts.h"

namespace tpscope {
namespace {

// Styles of the module itself, then of whoever feeds it.
Candidates stylesOf(const LintContext &context, const FlowFinding &finding) {
    Candidates out = otherStyles(context, finding.module);
    for (const FlowSide &side : finding.sides)
        if (side.module != finding.module)
            for (auto &changes : otherStyles(context, side.module))
                out.push_back(std::move(changes));
    return out;
}

// A parameter that the module's own forward uses (sinks of heads): cut as what it meets, on the rank's own part of it.
Candidates stylesOfParameter(const LintContext &context, const FlowFinding &finding) {
    if (finding.parameter.empty() || finding.sides.empty())
        return {};
    const std::string module = folded(context, finding.module);
    const std::string key = module + "." + finding.parameter;
    Candidates out;
    std::vector<std::string> styles = {plainStyle()};
    if (const EffectiveRule *rule = context.plan.ruleOfModule(finding.sides.front().module))
        styles.insert(styles.begin(), rule->rule.style);
    for (const std::string &style : styles) {
        out.push_back({{key, style}});
        out.push_back({{key, style}, {module, localStyle()}});
    }
    return out;
}

bool isPacked(const LintContext &context, ModuleIndex module) {
    for (const FlowParameter &parameter : context.flow->index().parameters(module))
        if (parameter.placement.kind == PlacementKind::StridedShard)
            return true;
    return false;
}

} // namespace

std::string consequence(const FlowFinding &finding) {
    return finding.stops ? "the forward fails" : "the logits are wrong";
}

std::string sideText(const LintContext &context, const FlowSide &side) {
    // A parameter that is no module's weight says its own name.
    const Module &module = context.model.tree.at(side.module);
    if (side.role != "weight" && module.parameter(side.role)) {
        const std::string name = module.name + "." + side.role;
        const EffectiveRule *rule = context.plan.ruleOfParameter(name);
        return inTicks(genericName(name)) + " (" + (rule ? rule->rule.style : std::string("no rule")) +
               ") gives each rank " + side.holds.text();
    }
    return withRule(context, side.module) + " gives each rank " + side.holds.text();
}

Told tellLayouts(const LintContext &context, const FlowFinding &finding) {
    for (const FlowSide &side : finding.sides)
        if (isPacked(context, side.module))
            return {code::packedWeight,
                    withRule(context, side.module) + " cuts two halves of a weight that is not packed: each rank then has " +
                        side.holds.text() + " channels from two places, and " + consequence(finding),
                    otherStyles(context, side.module)};
    const FlowSide &producer = finding.sides.front();
    const FlowSide &consumer = finding.sides.back();
    const ParallelStyle *style = context.flow->index().style(consumer.module);
    if (style && style->input == ParallelStyle::Input::Split && !producer.holds.isFull())
        return {code::layoutsApart,
                withRule(context, consumer.module) + " takes its slice of a whole input, but " +
                    sideText(context, producer) + " channels; " + consequence(finding),
                stylesOf(context, finding)};
    std::string message = sideText(context, producer) + " channels, but " + withRule(context, consumer.module);
    message += " expects " + consumer.holds.text() + "; " + consequence(finding);
    Candidates candidates = stylesOf(context, finding);
    candidates.push_back(gatherAttention(context, finding.module)); // a norm over the whole projection
    return {code::layoutsApart, std::move(message), std::move(candidates)};
}

Told tellOperands(const LintContext &context, const FlowFinding &finding) {
    for (const FlowSide &side : finding.sides)
        if (isPacked(context, side.module))
            return tellLayouts(context, finding);
    std::vector<std::string> sides;
    for (const FlowSide &side : finding.sides)
        sides.push_back(sideText(context, side));
    Candidates candidates = stylesOfParameter(context, finding);
    // Each operand's style for the other.
    for (const FlowSide &from : finding.sides)
        for (const FlowSide &to : finding.sides) {
            const EffectiveRule *rule = context.plan.ruleOfModule(from.module);
            if (rule && rule->style && from.module != to.module)
                candidates.push_back({{folded(context, to.module), rule->rule.style}});
        }
    for (auto &changes : stylesOf(context, finding))
        candidates.push_back(std::move(changes));
    return {code::operandsApart,
            "\"" + finding.operation + "\" combines different layouts: " + list(sides) + " channels; " +
                consequence(finding),
            std::move(candidates)};
}

Told tellMixedTensors(const LintContext &context, const FlowFinding &finding) {
    const std::string module = folded(context, finding.module);
    const FlowParameter *parameter = context.flow->index().parameter(finding.module, finding.parameter);
    const std::string name = module + "." + finding.parameter;
    Candidates candidates;
    const EffectiveRule *rule =
        context.plan.ruleOfParameter(context.model.tree.at(finding.module).name + "." + finding.parameter);
    if (rule && rule->rule.key == name)
        candidates.push_back({{name, plainStyle()}});
    if (parameter && parameter->distributed())
        candidates.push_back({{module, localStyle()}});
    for (auto &changes : otherStyles(context, finding.module))
        candidates.push_back(std::move(changes));
    std::string message;
    if (parameter && parameter->distributed())
        message = inTicks(name) + (rule ? " (" + rule->rule.style + ")" : std::string()) +
                  " is sharded, a DTensor, and " + withRule(context, finding.module) +
                  " computes with plain tensors; " + consequence(finding);
    else if (parameter)
        message = inTicks(name) + " is a plain tensor and meets a DTensor in " + withRule(context, finding.module) + "; " +
                  consequence(finding);
    else
        message = "\"" + finding.operation + "\" mixes plain tensors and DTensors; " + consequence(finding);
    return {code::mixedTensors, std::move(message), std::move(candidates)};
}

Told tellPartial(const LintContext &context, const FlowFinding &finding) {
    std::string message = "a share of a sum is used as if it were whole in \"" + finding.operation + "\"";
    if (!finding.sides.empty())
        message += ": nothing sums the output of " + withRule(context, finding.sides.front().module);
    return {code::notReduced, message + "; " + consequence(finding), stylesOf(context, finding)};
}

Told tellGather(const LintContext &context, const FlowFinding &finding) {
    if (isPacked(context, finding.module))
        return tellLayouts(context, finding);
    return {code::gatherApart,
            withRule(context, finding.module) + " gathers " + finding.sides.back().holds.text() +
                " channels of each rank, but the module gives " + finding.sides.front().holds.text() + "; " +
                consequence(finding),
            otherStyles(context, finding.module)};
}

Told tellPartOfOutput(const LintContext &context, const FlowFinding &finding) {
    const FlowSide &side = finding.sides.front();
    return {code::partOfOutput,
            withRule(context, side.module) + " gives each rank " + side.holds.text() +
                " logits: it sees a part of the vocabulary and picks its own token",
            otherStyles(context, side.module)};
}

Told tellSlices(const LintContext &context, const FlowFinding &finding) {
    const FlowSide &side = finding.sides.front();
    return tellFusedCut(context, finding,
                        "each rank gets " + side.holds.text() + " channels, and \"" + finding.operation +
                            "\" takes the parts by their position there");
}

Told tellFusedCut(const LintContext &context, const FlowFinding &finding, const std::string &why) {
    const FlowSide &side = finding.sides.front();
    if (isPacked(context, side.module))
        return tellLayouts(context, finding);
    std::string message = withRule(context, side.module) +
                          " cuts a fused weight across its parts, which lie behind one another in it: " + why + "; " +
                          consequence(finding);
    Candidates candidates;
    for (const std::string &style : {packedStyle(), plainStyle()})
        candidates.push_back({{folded(context, side.module), style}});
    for (auto &changes : otherStyles(context, side.module))
        candidates.push_back(std::move(changes));
    candidates.push_back(gatherAttention(context, finding.module));
    for (auto &changes : gatherAround(context, finding.module, side.module))
        candidates.push_back(std::move(changes));
    return {code::fusedCut, std::move(message), std::move(candidates), {side.module}};
}

} // namespace tpscope
