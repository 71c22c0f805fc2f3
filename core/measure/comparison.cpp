// SPDX-License-Identifier: GPL-3.0-or-later
#include "measure/comparison.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tpscope {
namespace {

constexpr double significance = 0.05;

double totalMs(const ModuleTime &time) { return time.computeMs + time.collectiveMs + time.launchMs; }

// Before's modules in their order, then what only after has.
std::vector<ModuleDelta> modulesOf(const RunTrace &before, const RunTrace &after) {
    std::vector<ModuleDelta> rows;
    std::unordered_map<std::string, std::size_t> index;
    for (const ModuleTime &time : before.perModule) {
        index.emplace(time.module, rows.size());
        rows.push_back({time.module, totalMs(time), 0.0});
    }
    for (const ModuleTime &time : after.perModule) {
        const auto [it, added] = index.emplace(time.module, rows.size());
        if (added)
            rows.push_back({time.module, 0.0, 0.0});
        rows[it->second].afterMs = totalMs(time);
    }
    return rows;
}

std::optional<bool> outputsEqual(const RunTrace &before, const RunTrace &after) {
    if (before.outputIds.empty() || after.outputIds.empty())
        return std::nullopt;
    return before.idsRepeat && after.idsRepeat && before.outputIds == after.outputIds;
}

// The last logits of two decodes can be compared only where both read the same tokens: all ids but the last agree.
bool sameInputs(const RunTrace &before, const RunTrace &after) {
    if (before.outputIds.size() != after.outputIds.size())
        return false;
    for (std::size_t row = 0; row < before.outputIds.size(); ++row) {
        const auto &a = before.outputIds[row];
        const auto &b = after.outputIds[row];
        if (a.size() != b.size() || a.empty() || !std::equal(a.begin(), a.end() - 1, b.begin()))
            return false;
    }
    return true;
}

std::optional<double> maxAbsLogitError(const RunTrace &before, const RunTrace &after) {
    const std::vector<float> &a = before.lastLogits;
    const std::vector<float> &b = after.lastLogits;
    if (a.empty() || a.size() != b.size() || !sameInputs(before, after))
        return std::nullopt;
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        if (std::isnan(error)) // also equal infinities: nothing can be said
            return std::nullopt;
        largest = std::max(largest, error);
    }
    return largest;
}

Verdict verdictOf(const ShiftEstimate &estimate, std::size_t samples) {
    if (samples < fewestSamples)
        return Verdict::TooFewSamples;
    if (estimate.p >= significance || (estimate.low <= 0.0 && estimate.high >= 0.0))
        return Verdict::NoClearDifference;
    return estimate.high < 0.0 ? Verdict::Faster : Verdict::Slower;
}

} // namespace

std::string_view name(Verdict verdict) {
    switch (verdict) {
    case Verdict::Faster: return "faster";
    case Verdict::Slower: return "slower";
    case Verdict::NoClearDifference: return "no clear difference";
    case Verdict::TooFewSamples: return "too few samples";
    case Verdict::NotMeasured: return "not measured";
    }
    return "?";
}

SourcedCount graphBreaksOf(const RunTrace &trace) {
    if (!trace.graphs)
        return {};
    return {trace.graphs->graphBreaks, trace.graphs->source};
}

SourcedCount launchesOf(const RunTrace &trace) {
    if (trace.graphs)
        return {trace.graphs->decodeLaunches, trace.graphs->source};
    return {trace.launchesPerToken, trace.source};
}

Comparison compare(RunTrace before, RunTrace after) {
    Comparison result;
    result.beforeMs = summarize(before.tokenMs);
    result.afterMs = summarize(after.tokenMs);
    result.deltaMs = result.afterMs.median - result.beforeMs.median;
    if (before.source == Source::Measured && after.source == Source::Measured) {
        const ShiftEstimate estimate = estimateShiftOfSeries(before.tokenMs, after.tokenMs);
        result.verdict = verdictOf(estimate, std::min(before.tokenMs.size(), after.tokenMs.size()));
        if (!before.tokenMs.empty() && !after.tokenMs.empty()) {
            result.deltaMs = estimate.shift;
            result.pValue = estimate.p;
        }
        if (std::isfinite(estimate.low) && std::isfinite(estimate.high))
            result.ci95Ms = {estimate.low, estimate.high};
    }
    if (result.beforeMs.median > 0.0)
        result.deltaPercent = 100.0 * result.deltaMs / result.beforeMs.median;
    result.outputsEqual = outputsEqual(before, after);
    result.maxAbsLogitError = maxAbsLogitError(before, after);
    result.perModule = modulesOf(before, after);
    result.before = std::move(before);
    result.after = std::move(after);
    return result;
}

RunTrace poolRepeats(const std::vector<RunTrace> &repeats) {
    if (repeats.empty())
        return {};
    RunTrace pooled = repeats.front();
    for (std::size_t i = 1; i < repeats.size(); ++i) {
        const RunTrace &repeat = repeats[i];
        pooled.tokenMs.insert(pooled.tokenMs.end(), repeat.tokenMs.begin(), repeat.tokenMs.end());
        pooled.timeToFirstTokenMs.insert(pooled.timeToFirstTokenMs.end(), repeat.timeToFirstTokenMs.begin(),
                                         repeat.timeToFirstTokenMs.end());
        pooled.idsRepeat = pooled.idsRepeat && repeat.idsRepeat && repeat.outputIds == pooled.outputIds;
        if (pooled.partial.empty())
            pooled.partial = repeat.partial;
    }
    if (!pooled.idsRepeat)
        pooled.statements.emplace_back("the repeats did not give the same ids");
    return pooled;
}

} // namespace tpscope
