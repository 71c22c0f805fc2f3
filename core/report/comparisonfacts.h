// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "measure/comparison.h"
#include "report/planfacts.h"

namespace tpscope {

// What a report on a comparison says, before any format.
struct ComparisonFacts {
    std::string title;               // "Hooks module-backward against post-accumulate-grad, tp 2"
    std::string result;              // result first
    std::string basis;               // then what it rests on
    ReportTable numbers;             // quantity, before, after, source
    std::vector<ReportTable> details; // causes of the graph breaks, times by module; those that are known
    std::vector<std::string> notes;  // what sources say of themselves: emulation, fit, extrapolation; and the machine
};

ComparisonFacts comparisonFacts(const Comparison &comparison);

// "37.60 ms"; digits that suit the size.
std::string milliseconds(double ms);

} // namespace tpscope
