// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "measure/statistics.h"
#include "run/runtrace.h"

namespace tpscope {

enum class Verdict { Faster, Slower, NoClearDifference, TooFewSamples, NotMeasured };
std::string_view name(Verdict verdict); // "faster", "slower", "no clear difference", ...

// Below so many samples on a side no verdict is given: the interval would rest on a handful of tokens, and neither the
// autocorrelation of a decode nor its tail can be seen in them.
constexpr std::size_t fewestSamples = 8;

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
    double deltaPercent = 0.0; // of before's median
    std::optional<std::array<double, 2>> ci95Ms; // none for simulated numbers and where too few samples allow none
    std::optional<double> pValue; // Wilcoxon rank-sum, corrected for autocorrelation (estimateShiftOfSeries)
    Verdict verdict = Verdict::NotMeasured;
    std::optional<bool> outputsEqual;
    std::optional<double> maxAbsLogitError;
    std::vector<ModuleDelta> perModule;
};

// A whole number with its source; no value: nobody knows it.
struct SourcedCount {
    std::optional<int> value;
    Source source = Source::NotChecked;
    bool operator==(const SourcedCount &) const = default;
};
SourcedCount graphBreaksOf(const RunTrace &trace); // explain's number
SourcedCount launchesOf(const RunTrace &trace);    // graphs launched per token, of the capture where one is known

// Faster or slower only if the 95 % interval excludes 0 and p < 0.05, and only between two measured runs. Samples of
// interleaved repeats (A B A B ...) are pooled by the caller into one trace a side.
Comparison compare(RunTrace before, RunTrace after);
// Joins repeats of one side: samples appended, everything else from the first; idsRepeat tells whether the ids agree.
// None: an empty trace.
RunTrace poolRepeats(const std::vector<RunTrace> &repeats);

// The JSON of `tpscope compare` (DESIGN "Command line"), and back (a stored recording).
nlohmann::json toJson(const Comparison &comparison);
Result<Comparison> comparisonFromJson(const nlohmann::json &json, const std::string &where);

} // namespace tpscope
