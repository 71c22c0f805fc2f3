// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lint/lintcontext.h"

namespace tpscope {

// "Give this key this style", whether a rule for it stands in the file, is inherited or does not exist yet.
struct RuleChange {
    std::string key;
    std::string style;
    PlanPart part = PlanPart::Tp;
    bool operator==(const RuleChange &) const = default;
};

// The edits that make the changes in the plan's text: rules in place, new ones appended. Empty without a document, or
// where the text cannot be changed that way.
std::vector<TextEdit> editsFor(const PlanDocument *document, const std::vector<RuleChange> &changes);
Fix fixOf(const LintContext &context, const std::vector<RuleChange> &changes);
std::string titleOf(const std::vector<RuleChange> &changes);

// The plan with the changes, resolved.
ResolvedPlan changedPlan(const ModelDescription &model, const ResolvedPlan &plan, const std::vector<RuleChange> &changes);

// Tries candidates in order on the layout flow and returns the first that leaves no finding at all, else the first that
// removes this one and brings no new one. training: the finding is one of the backward.
std::optional<Fix> provenFix(const LintContext &context, const FlowFinding &finding, bool training,
                             const std::vector<std::vector<RuleChange>> &candidates);

// Candidates: the module's built-in style, if it has another one now; all other styles, that one first.
std::vector<std::vector<RuleChange>> builtinStyle(const LintContext &context, ModuleIndex module);
std::vector<std::vector<RuleChange>> otherStyles(const LintContext &context, ModuleIndex module);
// The attention module's projections gathered, its output projection splitting its input, norms between them whole.
std::vector<RuleChange> gatherAttention(const LintContext &context, ModuleIndex attention);
// The same style on all projections of heads: that of the first.
std::vector<RuleChange> alikeAttention(const LintContext &context, ModuleIndex attention);
// The name of a row of the style table with these traits.
std::string plainStyle();   // does nothing: cancels a rule
std::string summingStyle(); // hooks parameters
std::string dealingStyle(); // deals out whole experts

} // namespace tpscope
