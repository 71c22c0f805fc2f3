// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "lint/fixes.h"

// What is told of findings about layouts: which two sides do not meet, why, and what could mend it. Internal to lint/.
namespace tpscope {

using Candidates = std::vector<std::vector<RuleChange>>;

struct Told {
    std::string_view code;
    std::string message;
    Candidates candidates;
    std::vector<ModuleIndex> modules = {}; // empty: those of the finding
};

std::string consequence(const FlowFinding &finding); // "the forward fails", "the logits are wrong"
std::string sideText(const LintContext &context, const FlowSide &side);

Told tellLayouts(const LintContext &context, const FlowFinding &finding);
Told tellOperands(const LintContext &context, const FlowFinding &finding);
Told tellMixedTensors(const LintContext &context, const FlowFinding &finding);
Told tellPartial(const LintContext &context, const FlowFinding &finding);
Told tellGather(const LintContext &context, const FlowFinding &finding);
Told tellPartOfOutput(const LintContext &context, const FlowFinding &finding);
Told tellSlices(const LintContext &context, const FlowFinding &finding);
// why: what the ranks have, and what the forward expects.
Told tellFusedCut(const LintContext &context, const FlowFinding &finding, const std::string &why);

} // namespace tpscope
