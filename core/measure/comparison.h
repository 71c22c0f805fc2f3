// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/statistics.h"
#include "run/runtrace.h"

namespace tpscope {

enum class Verdict { Faster, Slower, NoClearDifference, TooFewSamples, NotMeasured };
std::string_view name(Verdict verdict); // "faster", "slower", "no clear difference", ...

struct ModuleDelta {
    std::string module;
    double beforeMs = 0.0;
    double afterMs = 0.0;
};

struct Comparison {
    RunTrace before;
    RunTrace after;
    Summary beforeMs;
    Summary afterMs;
    double deltaMs = 0.0;     // after - before: Hodges-Lehmann shift, or the difference of medians when simulated
    double deltaPercent = 0.0;
    std::optional<std::array<double, 2>> ci95Ms; // none for simulated numbers
    Verdict verdict = Verdict::NotMeasured;
    std::optional<bool> outputsEqual;
    std::optional<double> maxAbsLogitError;
    std::vector<ModuleDelta> perModule;
};

// Samples of interleaved repeats (A B A B ...) are pooled by the caller into one trace a side.
Comparison compare(RunTrace before, RunTrace after);
// Joins repeats of one side: samples appended, everything else from the first (ids must agree, else outputsEqual false).
RunTrace poolRepeats(const std::vector<RunTrace> &repeats);
nlohmann::json toJson(const Comparison &comparison);
Result<Comparison> comparisonFromJson(const nlohmann::json &json, const std::string &where);

} // namespace tpscope
