// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "measure/comparison.h"

namespace tpscope {

// A comparison as lines and columns for a terminal. Pure; each number with its source.
std::string comparisonText(const Comparison &comparison);

} // namespace tpscope
