// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "measure/comparison.h"

namespace tpscope {

// A comparison as one self-contained page with the launch strips, before above after. Pure; each number with its source.
std::string comparisonHtml(const Comparison &comparison);

} // namespace tpscope
