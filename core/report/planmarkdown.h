// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "session/workspace.h"

namespace tpscope {

// The report on one plan for a review: outcome, findings, sharding folded by layer, hooks and graphs. Pure.
std::string planMarkdown(const PlanAnalysis &analysis);

} // namespace tpscope
