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

PlanPart partOf(const EffectiveRule &rule);
// Upstream puts the style on such a module without raising.
bool fitsModule(const ParallelStyle &style, const Module &module);

// The style the family's own plan gives a full key; a plain one where it has none.
std::string builtinTpStyle(const LintContext &context, const std::string &key);
std::string builtinEpStyle(const LintContext &context, const std::string &key);

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
// The module gathered, and the products of `around` that take part in what follows splitting their input.
std::vector<std::vector<RuleChange>> gatherAround(const LintContext &context, ModuleIndex around, ModuleIndex module);
// The same style on all projections of heads: that of the first.
std::vector<RuleChange> alikeAttention(const LintContext &context, ModuleIndex attention);
// The module and its parameters whole.
std::vector<RuleChange> wholeModule(const LintContext &context, ModuleIndex module);
// The name of a row of the style table with these traits.
std::string plainStyle();   // does nothing: cancels a rule
std::string summingStyle(); // hooks parameters
std::string dealingStyle(); // deals out whole experts
std::string localStyle();   // the forward runs on the local shards of parameters that have rules of their own
std::string vocabularyStyle(); // of embeddings, by default
std::string packedStyle();  // cuts each half of the output features by itself

} // namespace tpscope
