// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "report/planfacts.h"

namespace tpscope {

// The same reports as one self-contained page. Pure.
std::string planHtml(const PlanAnalysis &analysis);
std::string planHtml(const PlanFacts &facts);

} // namespace tpscope
