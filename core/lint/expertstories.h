// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "lint/fixes.h"

// Findings at modules of experts, in words. Internal to lint/.
namespace tpscope {

struct ExpertStory {
    std::string_view code;
    std::string message;
    std::vector<std::vector<RuleChange>> candidates;
};

// finding.cause is one that only experts have, and the module is one of experts.
ExpertStory tellExperts(const LintContext &context, const FlowFinding &finding, const std::string &consequence);
// The parameters dealt out by expert where tokens are dispatched, else as the built-in tp plan has them.
std::vector<std::vector<RuleChange>> expertStyles(const LintContext &context, ModuleIndex module);

} // namespace tpscope
