// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>

#include "measure/comparison.h"
#include "run/jsonfields.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

constexpr Verdict verdicts[] = {Verdict::Faster, Verdict::Slower, Verdict::NoClearDifference, Verdict::TooFewSamples,
                                Verdict::NotMeasured};

template <typename T> Json orNull(const std::optional<T> &value) { return value ? Json(*value) : Json(nullptr); }

Json both(const SourcedCount &before, const SourcedCount &after) {
    return Json::array({orNull(before.value), orNull(after.value)});
}

Json bothSources(const SourcedCount &before, const SourcedCount &after) {
    return Json::array({name(before.source), name(after.source)});
}

// What one side's numbers are: a difference is no better than the worse of its sides.
Source sourceOfDelta(const Comparison &comparison) {
    if (comparison.before.tokenMs.empty() || comparison.after.tokenMs.empty())
        return Source::NotChecked;
    return comparison.before.source == Source::Measured ? comparison.after.source : comparison.before.source;
}

Json sourcesJson(const Comparison &comparison) {
    const auto known = [](bool is, Source source) { return name(is ? source : Source::NotChecked); };
    const Source delta = sourceOfDelta(comparison);
    return {{"delta_ms", name(delta)},
            {"delta_percent", name(delta)},
            {"ci95_ms", known(comparison.ci95Ms.has_value(), delta)},
            {"outputs_equal", known(comparison.outputsEqual.has_value(), Source::Measured)},
            {"max_abs_logit_error", known(comparison.maxAbsLogitError.has_value(), Source::Measured)},
            {"graph_breaks", bothSources(graphBreaksOf(comparison.before), graphBreaksOf(comparison.after))},
            {"launches", bothSources(launchesOf(comparison.before), launchesOf(comparison.after))},
            {"per_module", known(!comparison.perModule.empty(), delta)}};
}

// The prediction beside measured graphs.
Json predictedJson(const Comparison &comparison) {
    const auto &before = comparison.before.predictedGraphs;
    const auto &after = comparison.after.predictedGraphs;
    if (!before || !after)
        return nullptr;
    return {{"graph_breaks", {before->graphBreaks, after->graphBreaks}},
            {"launches", {before->decodeLaunches, after->decodeLaunches}}};
}

Verdict readVerdict(JsonFields &fields) {
    const std::string text = fields.text("verdict");
    const auto known = std::ranges::find(verdicts, text, [](Verdict verdict) { return name(verdict); });
    if (known != std::end(verdicts))
        return *known;
    fields.reject("verdict", "is none of faster, slower, no clear difference, too few samples, not measured");
    return Verdict::NotMeasured;
}

void readInterval(JsonFields &fields, Comparison &comparison) {
    if (!fields.has("ci95_ms"))
        return;
    const std::vector<double> ends = fields.numbers("ci95_ms");
    if (ends.size() == 2 && ends[0] <= ends[1])
        comparison.ci95Ms = {ends[0], ends[1]};
    else
        fields.reject("ci95_ms", "must hold the low and the high end of the interval");
}

Result<RunTrace> readSide(const Json &json, const char *side, const std::string &where) {
    const auto it = json.find(side);
    if (it == json.end() || !it->is_object())
        return fail(ErrorCode::BadInput, std::string("`") + side + "` is missing: expected the object of a run",
                    Location{where});
    auto trace = runTraceFromJson(*it, where);
    if (!trace)
        trace.error().message = std::string("in `") + side + "`: " + trace.error().message;
    return trace;
}

} // namespace

Json toJson(const Comparison &comparison) {
    Json perModule = Json::array();
    for (const ModuleDelta &row : comparison.perModule)
        perModule.push_back({{"module", row.module}, {"before_ms", row.beforeMs}, {"after_ms", row.afterMs}});
    return {{"before", toJson(comparison.before)},
            {"after", toJson(comparison.after)},
            {"delta_ms", comparison.deltaMs},
            {"delta_percent", comparison.deltaPercent},
            {"ci95_ms", orNull(comparison.ci95Ms)},
            {"p_value", orNull(comparison.pValue)},
            {"verdict", name(comparison.verdict)},
            {"outputs_equal", orNull(comparison.outputsEqual)},
            {"max_abs_logit_error", orNull(comparison.maxAbsLogitError)},
            {"graph_breaks", both(graphBreaksOf(comparison.before), graphBreaksOf(comparison.after))},
            {"launches", both(launchesOf(comparison.before), launchesOf(comparison.after))},
            {"predicted", predictedJson(comparison)},
            {"per_module", std::move(perModule)},
            {"sources", sourcesJson(comparison)}};
}

Result<Comparison> comparisonFromJson(const Json &json, const std::string &where) {
    JsonFields fields(json, where);
    if (const auto object = fields.error(); !object)
        return tl::unexpected(object.error());
    Comparison comparison;
    auto before = readSide(json, "before", where);
    if (!before)
        return tl::unexpected(before.error());
    auto after = readSide(json, "after", where);
    if (!after)
        return tl::unexpected(after.error());
    comparison.before = std::move(*before);
    comparison.after = std::move(*after);
    comparison.beforeMs = summarize(comparison.before.tokenMs);
    comparison.afterMs = summarize(comparison.after.tokenMs);
    comparison.deltaMs = fields.number("delta_ms");
    comparison.deltaPercent = fields.number("delta_percent");
    readInterval(fields, comparison);
    if (fields.has("p_value"))
        comparison.pValue = fields.number("p_value");
    comparison.verdict = readVerdict(fields);
    if (fields.has("outputs_equal"))
        comparison.outputsEqual = fields.flag("outputs_equal");
    if (fields.has("max_abs_logit_error"))
        comparison.maxAbsLogitError = fields.number("max_abs_logit_error");
    for (JsonFields &row : fields.objects("per_module"))
        comparison.perModule.push_back({row.text("module"), row.number("before_ms"), row.number("after_ms")});
    if (const auto checked = fields.error(); !checked)
        return tl::unexpected(checked.error());
    return comparison;
}

} // namespace tpscope
