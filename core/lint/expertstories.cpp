// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/expertstories.h"

#include <algorithm>

namespace tpscope {
namespace {

bool dispatches(const LintContext &context, ModuleIndex module) {
    const ParallelStyle *style = context.plan.styleOfModule(module);
    return style && style->dispatchesTokens;
}

std::string parameterWithRule(const LintContext &context, const FlowFinding &finding) {
    const std::string name = context.model.tree.at(finding.module).name + "." + std::string(finding.parameter);
    const EffectiveRule *rule = context.plan.ruleOfParameter(name);
    return inTicks(genericName(name)) + " (" + (rule ? rule->rule.style : std::string("no rule")) + ")";
}

std::string misaligned(const LintContext &context, const FlowFinding &finding) {
    const FlowSide &side = finding.sides.front();
    const auto bytes = static_cast<std::int64_t>(elementSize(context.model.dtype));
    std::int64_t width = 0;
    for (int r = 0; r < side.holds.ranks(); ++r)
        if (side.holds.width(r) * bytes % 16 != 0)
            width = side.holds.width(r);
    return "rows of " + inTicks(finding.parameter) + " of " + std::to_string(width) + " elements are " +
           std::to_string(width * bytes) + " bytes on a rank; grouped_mm needs multiples of 16";
}

} // namespace

std::vector<std::vector<RuleChange>> expertStyles(const LintContext &context, ModuleIndex module) {
    const bool dealt = dispatches(context, module);
    const Module &self = context.model.tree.at(module);
    std::vector<RuleChange> changes;
    for (const Parameter &parameter : self.parameters) {
        const std::string key = folded(context, module) + "." + parameter.name;
        const EffectiveRule *rule = context.plan.ruleOfParameter(self.name + "." + parameter.name);
        const std::string style = dealt ? dealingStyle() : builtinTpStyle(context, key);
        if (!rule || rule->rule.style != style)
            changes.push_back({key, style, dealt ? PlanPart::Ep : PlanPart::Tp});
    }
    return {changes};
}

ExpertStory tellExperts(const LintContext &context, const FlowFinding &finding, const std::string &consequence) {
    ExpertStory story{code::expertCount, {}, expertStyles(context, finding.module)};
    const std::string module = withRule(context, finding.module);
    switch (finding.cause) {
    case FlowCause::ExpertsCut:
        story.code = code::expertStyle;
        story.message = parameterWithRule(context, finding) +
                        ": each rank holds other experts, and nothing brings a token to the rank of its experts: that "
                        "takes an ep_plan";
        break;
    case FlowCause::Misaligned:
        story.code = code::misaligned;
        story.message = misaligned(context, finding);
        for (auto &changes : otherStyles(context, finding.module))
            story.candidates.push_back(std::move(changes));
        story.candidates.push_back(wholeModule(context, finding.module));
        break;
    case FlowCause::ExpertBiasWhole:
        story.message = parameterWithRule(context, finding) +
                        " holds the biases of all experts, but the weights those of this rank's experts, so the other "
                        "ranks add the first experts' biases";
        break;
    case FlowCause::ExpertShards:
        story.code = code::expertShards;
        story.message = module + " sends a token to the one rank of its experts, but each rank has only a part of their "
                                 "weights";
        break;
    case FlowCause::DispatchCall:
        story.code = code::callForm;
        story.message = module + " takes hidden states, indices and weights of the experts, and the module is called "
                                 "otherwise";
        story.candidates = {{{folded(context, finding.module), plainStyle(), PlanPart::Ep}}};
        break;
    default:
        if (!dispatches(context, finding.module)) // a router: its own rule
            story.candidates.insert(story.candidates.begin(), {{folded(context, finding.module), plainStyle()}});
        story.message = parameterWithRule(context, finding) + " holds another number of experts than " + module +
                        " has on a rank";
        break;
    }
    story.message += "; " + consequence;
    return story;
}

} // namespace tpscope
