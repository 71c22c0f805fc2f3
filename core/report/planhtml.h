// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "session/workspace.h"

namespace tpscope {

// The same report as planMarkdown() as one self-contained page: outcome, findings, sharding folded by layer, hooks and graphs. Pure.
std::string planHtml(const PlanAnalysis &analysis);

} // namespace tpscope
