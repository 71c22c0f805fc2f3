// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "measure/comparison.h"

namespace tpscope {

// A comparison as Markdown for a review. Pure; each number with its source.
std::string comparisonMarkdown(const Comparison &comparison);

} // namespace tpscope
