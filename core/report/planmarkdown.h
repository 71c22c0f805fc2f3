// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "report/planfacts.h"

namespace tpscope {

// The report on one plan for a review: outcome, findings, sharding folded by layer, hooks and graphs. Pure.
std::string planMarkdown(const PlanAnalysis &analysis);
std::string planMarkdown(const PlanFacts &facts);

} // namespace tpscope
