// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/summary.h"

#include <nlohmann/json.hpp>
#include "base/text.h"
#include "run/jsonfields.h"
#include "run/runtrace.h"
#include "run/timelinejson.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

// --- writing ----------------------------------------------------------------------------------------------------------

Json samplesJson(const std::vector<double> &samples) {
    const Summary summary = summarize(samples);
    return {{"n", summary.n},     {"median", summary.median}, {"p90", summary.p90},
            {"p99", summary.p99}, {"mad", summary.mad},       {"samples", samples}};
}

Json graphsJson(const GraphNumbers &graphs) {
    return {{"source", name(graphs.source)},
            {"graph_breaks", graphs.graphBreaks},
            {"prefill",
             {{"graphs", graphs.prefillGraphs},
              {"launches", graphs.prefillLaunches},
              {"break_counter", graphs.breakCounter},
              {"launch_sequence", graphs.prefillSequence}}},
            {"decode",
             {{"graphs", graphs.decodeGraphs},
              {"launches", graphs.decodeLaunches},
              {"break_counter", graphs.decodeBreakCounter},
              {"launch_sequence", graphs.decodeSequence}}},
            {"reasons", graphs.reasons}};
}

Json environmentJson(const Environment &environment) {
    return {{"machine", environment.machine},     {"versions", environment.versions},
            {"attention", environment.attention}, {"dtype", environment.dtype},
            {"seed", environment.seed},           {"threads", environment.threads},
            {"date", environment.date},           {"notes", environment.notes}};
}

Json perModuleJson(const RunTrace &trace) {
    Json result = Json::array();
    for (const ModuleTime &time : trace.perModule)
        result.push_back({{"module", time.module},
                          {"compute_ms", time.computeMs},
                          {"collective_ms", time.collectiveMs},
                          {"launch_ms", time.launchMs}});
    return result;
}

// A number that nobody produced is not checked, whatever the backend.
Json sourcesJson(const RunTrace &trace) {
    const auto sourceOf = [&](bool known) { return name(known ? trace.source : Source::NotChecked); };
    const bool fromGraphs = trace.graphs && trace.launchesPerToken > 0;
    return {{"per_token_ms", sourceOf(!trace.tokenMs.empty())},
            {"time_to_first_token_ms", sourceOf(!trace.timeToFirstTokenMs.empty())},
            {"output_ids", sourceOf(!trace.outputIds.empty())},
            {"launches", fromGraphs ? name(trace.graphs->source) : name(trace.source)},
            {"hooks_registered", name(trace.source)},
            {"collectives", name(trace.source)},
            {"per_module", sourceOf(!trace.perModule.empty())},
            {"graphs", trace.graphs ? name(trace.graphs->source) : name(Source::NotChecked)}};
}

// --- reading ----------------------------------------------------------------------------------------------------------

// A word of a closed set: the parser's own message is told with the key.
template <typename T> T word(JsonFields &reader, const std::string &key, Result<T> (*parse)(const std::string &)) {
    const std::string text = reader.text(key);
    if (reader.failed())
        return T{};
    const Result<T> value = parse(text);
    if (!value)
        reader.reject(key, "holds an " + value.error().message);
    return value.value_or(T{});
}

GraphNumbers readGraphs(JsonFields reader) {
    GraphNumbers graphs;
    graphs.source = word(reader, "source", parseSource);
    graphs.graphBreaks = reader.count("graph_breaks");
    JsonFields prefill = reader.object("prefill");
    graphs.prefillGraphs = prefill.count("graphs");
    graphs.prefillLaunches = prefill.count("launches");
    graphs.breakCounter = prefill.count("break_counter");
    graphs.prefillSequence = prefill.counts("launch_sequence");
    JsonFields decode = reader.object("decode");
    graphs.decodeGraphs = decode.count("graphs");
    graphs.decodeLaunches = decode.count("launches");
    graphs.decodeBreakCounter = decode.count("break_counter");
    graphs.decodeSequence = decode.counts("launch_sequence");
    graphs.reasons = reader.texts("reasons");
    return graphs;
}

std::map<std::string, std::string> readTexts(JsonFields reader) {
    std::map<std::string, std::string> result;
    for (const std::string &key : reader.keys())
        result[shortened(key)] = reader.text(key);
    return result;
}

Environment readEnvironment(JsonFields reader) {
    Environment environment;
    environment.machine = reader.text("machine");
    environment.versions = readTexts(reader.object("versions"));
    environment.attention = reader.text("attention", "");
    environment.dtype = reader.text("dtype", "");
    environment.seed = reader.unsignedInteger("seed", 0);
    environment.threads = reader.count("threads", 1);
    environment.date = reader.text("date");
    if (reader.has("notes"))
        environment.notes = readTexts(reader.object("notes"));
    return environment;
}

std::vector<double> readSamples(JsonFields reader) {
    if (!reader.has("samples"))
        reader.reject("samples", "is missing: a run is compared by its single samples; run it again with --out");
    std::vector<double> samples = reader.numbers("samples");
    const int n = reader.count("n");
    if (!reader.failed() && static_cast<std::size_t>(n) != samples.size())
        reader.reject("n", "says " + std::to_string(n) + " and there are " + std::to_string(samples.size()) +
                               " samples");
    return samples;
}

// A document, which JsonFields::text would cut to one line as it does for what is shown.
std::string wholeText(JsonFields &reader, const std::string &key) {
    if (!reader.has(key))
        return {};
    const Json &value = reader.json().at(key);
    if (!value.is_string())
        reader.reject(key, "must be a text");
    return value.is_string() ? value.get<std::string>() : std::string();
}

void readModules(JsonFields &reader, RunTrace &trace) {
    for (JsonFields &row : reader.objects("per_module"))
        trace.perModule.push_back({row.text("module"), row.number("compute_ms"), row.number("collective_ms"),
                                   row.number("launch_ms", 0.0)});
}

void readCollectives(JsonFields reader, RunTrace &trace) {
    for (const std::string &collective : reader.keys()) {
        JsonFields counted = reader.object(collective);
        trace.collectives[shortened(collective)] = {counted.integer("count"), counted.integer("bytes")};
    }
}

} // namespace

nlohmann::json toJson(const std::map<std::string, CollectiveCount> &collectives) {
    Json result = Json::object();
    for (const auto &[collective, counted] : collectives)
        result[collective] = {{"count", counted.count}, {"bytes", counted.bytes}};
    return result;
}

std::map<std::string, CollectiveCount> collectivesFromJson(const nlohmann::json &json) {
    std::map<std::string, CollectiveCount> result;
    for (const auto &[collective, counted] : json.items())
        result[collective] = {counted.at("count").get<std::int64_t>(), counted.at("bytes").get<std::int64_t>()};
    return result;
}

Json toJson(const RunTrace &trace) {
    Json json{{"backend", name(trace.backend)},
              {"source", name(trace.source)},
              {"tp", trace.tp},
              {"hooks", name(trace.hooks)},
              {"collectives_kind", name(trace.collectivesKind)},
              {"output_ids", trace.outputIds},
              {"ids_repeat", trace.idsRepeat},
              {"per_token_ms", samplesJson(trace.tokenMs)},
              {"time_to_first_token_ms", nullptr},
              {"time_to_first_token_samples_ms", trace.timeToFirstTokenMs},
              {"launches", trace.launchesPerToken},
              {"hooks_registered", trace.hooksRegistered},
              {"collectives", toJson(trace.collectives)},
              {"per_module", perModuleJson(trace)},
              {"graphs", nullptr},
              {"predicted_graphs", nullptr},
              {"statements", trace.statements},
              {"environment", environmentJson(trace.environment)},
              {"partial", trace.partial},
              {"model", trace.model},
              {"plan", trace.plan},
              {"plan_text", trace.planText},
              {"sources", sourcesJson(trace)}};
    if (!trace.timeToFirstTokenMs.empty())
        json["time_to_first_token_ms"] = summarize(trace.timeToFirstTokenMs).median;
    if (trace.graphs)
        json["graphs"] = graphsJson(*trace.graphs);
    if (trace.predictedGraphs)
        json["predicted_graphs"] = graphsJson(*trace.predictedGraphs);
    if (Json timeline = timelineJson(trace); !timeline.is_null())
        json["timeline"] = std::move(timeline);
    return json;
}

Result<RunTrace> runTraceFromJson(const Json &json, const std::string &where) {
    JsonFields reader(json, where);
    RunTrace trace;
    trace.backend = word(reader, "backend", parseBackend);
    trace.source = word(reader, "source", parseSource);
    trace.tp = reader.count("tp");
    trace.hooks = word(reader, "hooks", parseHookMode);
    trace.collectivesKind = word(reader, "collectives_kind", parseCollectives);
    trace.outputIds = reader.integerRows("output_ids");
    trace.idsRepeat = reader.flag("ids_repeat", true);
    trace.tokenMs = readSamples(reader.object("per_token_ms"));
    trace.timeToFirstTokenMs = reader.numbers("time_to_first_token_samples_ms");
    trace.launchesPerToken = reader.count("launches");
    trace.hooksRegistered = reader.count("hooks_registered");
    readCollectives(reader.object("collectives"), trace);
    readModules(reader, trace);
    if (reader.has("graphs"))
        trace.graphs = readGraphs(reader.object("graphs"));
    if (reader.has("predicted_graphs"))
        trace.predictedGraphs = readGraphs(reader.object("predicted_graphs"));
    trace.statements = reader.texts("statements");
    trace.environment = readEnvironment(reader.object("environment"));
    trace.partial = reader.text("partial", "");
    trace.model = reader.text("model", "");
    trace.plan = reader.text("plan", "");
    trace.planText = wholeText(reader, "plan_text");
    if (const auto checked = reader.error(); !checked)
        return tl::unexpected(checked.error());
    if (reader.has("timeline"))
        if (const auto read = readTimeline(json.at("timeline"), where, trace); !read)
            return tl::unexpected(read.error());
    return trace;
}

} // namespace tpscope
