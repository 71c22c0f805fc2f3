// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "plan/plandocument.h"

// Edits of a plan's text that take something away, or change the plan as a whole.
namespace tpscope {

// Of rules with one key (indices of the part's rules), the edits that delete all but one, each with its line where it
// stands alone there. Empty where the text cannot be changed that way: merged rules, keys behind "?".
std::vector<TextEdit> removeRuleEdits(const PlanDocument &document, const std::vector<std::size_t> &group,
                                      std::size_t kept, PlanPart part = PlanPart::Tp);

// An empty tp_plan: where its key stands, and the edit that makes it the built-in plan.
struct EmptyPlan {
    SourceSpan key;
    TextEdit automatic;
};
std::optional<EmptyPlan> emptyPlanPlace(const PlanDocument &document);

} // namespace tpscope
