// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/proberesult.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tpscope {
using Json = nlohmann::json;

namespace {

std::vector<ProbeRepeat> repeatsOf(const Json &latency) {
    std::vector<ProbeRepeat> repeats;
    for (const Json &entry : latency.at("repeats")) {
        ProbeRepeat repeat;
        repeat.firstTokenMs = entry.at("first_token_ns").get<double>() / 1e6;
        for (const double nanos : entry.at("step_ns").get<std::vector<double>>())
            repeat.stepMs.push_back(nanos / 1e6);
        repeat.startNanos = entry.at("start_ns").get<std::vector<std::int64_t>>();
        repeats.push_back(std::move(repeat));
    }
    return repeats;
}

void addSamples(const std::vector<ProbeRepeat> &repeats, const RunConfig &config, RunTrace &trace) {
    for (const ProbeRepeat &repeat : repeats) {
        trace.timeToFirstTokenMs.push_back(repeat.firstTokenMs);
        const auto warmup =
            std::min<std::size_t>(std::max(0, config.warmupTokens), repeat.stepMs.size());
        trace.tokenMs.insert(trace.tokenMs.end(),
                             repeat.stepMs.begin() + static_cast<std::ptrdiff_t>(warmup),
                             repeat.stepMs.end());
    }
    if (config.eventsWanted)
        trace.ranks.push_back({0, tokenEvents(repeats)});
}

RunTrace emptyTrace(const RunConfig &config) {
    RunTrace trace;
    trace.backend = Backend::Transformers;
    trace.source = Source::Measured;
    describeRun(trace, config);
    trace.environment = currentEnvironment();
    trace.environment.seed = config.seed;
    trace.environment.threads = config.threads;
    return trace;
}

void addEnvironment(const Json &result, RunTrace &trace) {
    const Json &environment = result.at("environment");
    Environment &out = trace.environment;
    for (const char *key : {"torch", "transformers", "python"})
        out.versions[key] = environment.at(key).get<std::string>();
    out.attention = environment.at("attention").get<std::string>();
    out.dtype = environment.at("dtype").get<std::string>();
    out.threads = environment.at("threads").get<int>();
    out.notes["platform"] = environment.at("platform").get<std::string>();
    out.notes["execution"] = environment.at("execution").get<std::string>();
    if (environment.at("compile_backend").is_string())
        out.notes["compile_backend"] = environment.at("compile_backend").get<std::string>();
    out.notes["recompile_limit"] = std::to_string(environment.at("recompile_limit").get<int>());
    out.notes["hooks"] = result.at("hooks").at("how").get<std::string>();
    const int cores = environment.at("cores").get<int>();
    if (trace.tp * out.threads > cores)
        out.notes["oversubscribed"] = std::to_string(trace.tp) + " ranks of " +
                                      std::to_string(out.threads) + " threads on " +
                                      std::to_string(cores) + " cores";
}

void addStatements(const Json &result, RunTrace &trace) {
    const Json &hooks = result.at("hooks");
    trace.statements.push_back("hooks " + hooks.at("mode").get<std::string>() + ": " +
                               hooks.at("how").get<std::string>());
    if (result.at("environment").at("execution") == "compile")
        trace.statements.push_back(
            "the prefill runs in eager, the decode steps under torch.compile");
    if (!result.value("outputs_stable", true))
        trace.statements.push_back("output ids differ between repeats");
    if (const Json graphs = result.value("graphs", Json::object());
        !graphs.value("ranks_agree", true))
        trace.statements.push_back(
            "the ranks compiled different graphs; the numbers are those of rank 0");
    for (const Json &warning : result.value("warnings", Json::array()))
        trace.statements.push_back("transformers warns: " + warning.get<std::string>());
}

RunTrace readTrace(const Json &result, const RunConfig &config) {
    RunTrace trace = emptyTrace(config);
    addEnvironment(result, trace);
    addStatements(result, trace);
    trace.outputIds = result.at("output_ids").get<std::vector<std::vector<std::int64_t>>>();
    trace.lastLogits = result.at("last_logits").get<std::vector<float>>();
    const Json &latency = result.at("latency");
    addSamples(repeatsOf(latency), config, trace);
    if (latency.at("launches_per_step").is_number())
        trace.launchesPerToken =
            static_cast<int>(std::lround(latency.at("launches_per_step").get<double>()));
    const Json &registered = result.at("hooks").at("after_decode");
    for (const auto &[kind, count] : registered.items())
        trace.hooksRegistered += count.get<int>();
    if (result.contains("collectives"))
        trace.collectives = collectivesFromJson(result.at("collectives").at("decode_step"));
    if (result.contains("graphs"))
        trace.graphs = graphNumbersOf(result.at("graphs"));
    return trace;
}

} // namespace

GraphNumbers graphNumbersOf(const Json &graphs) {
    GraphNumbers numbers;
    numbers.source = Source::Measured;
    const Json &prefill = graphs.at("prefill"), &decode = graphs.at("decode");
    numbers.prefillGraphs = prefill.at("graphs").get<int>();
    numbers.prefillLaunches = prefill.at("launches").get<int>();
    numbers.breakCounter = prefill.at("break_counter").get<int>();
    numbers.prefillSequence = prefill.at("launch_sequence").get<std::vector<int>>();
    numbers.graphBreaks = std::max(0, prefill.at("graphs_first_call").get<int>() - 1);
    numbers.decodeGraphs = decode.at("graphs").get<int>();
    numbers.decodeLaunches = decode.at("launches").get<int>();
    numbers.decodeBreakCounter = decode.at("break_counter").get<int>();
    numbers.decodeSequence = decode.at("launch_sequence").get<std::vector<int>>();
    std::set<std::string> reasons;
    for (const Json *part : {&prefill, &decode})
        for (const Json &entry : part->at("breaks")) {
            const Json &module = entry.at("module");
            reasons.insert((module.is_string() ? module.get<std::string>() + ": " : "") +
                           entry.at("cause").get<std::string>());
        }
    numbers.reasons.assign(reasons.begin(), reasons.end());
    return numbers;
}

std::vector<Event> tokenEvents(const std::vector<ProbeRepeat> &repeats) {
    std::vector<Event> events;
    for (const ProbeRepeat &repeat : repeats)
        for (std::size_t i = 0; i < repeat.startNanos.size() && i <= repeat.stepMs.size(); ++i) {
            const double ms = i == 0 ? repeat.firstTokenMs : repeat.stepMs[i - 1];
            Event event;
            event.start = repeat.startNanos[i];
            event.duration = std::llround(ms * 1e6);
            event.kind = EventKind::Token;
            event.token = static_cast<std::int32_t>(i) - 1;
            events.push_back(event);
        }
    return events;
}

Result<RunTrace> traceOfResult(const Json &result, const RunConfig &config) {
    try {
        return readTrace(result, config);
    } catch (const Json::exception &error) {
        return fail(ErrorCode::RunFailed,
                    std::string("the transformers run's result lacks a value: ") + error.what());
    }
}

RunTrace partialTrace(const std::vector<ProbeRepeat> &repeats, const RunConfig &config,
                      const std::string &why) {
    RunTrace trace = emptyTrace(config);
    addSamples(repeats, config, trace);
    trace.partial = why;
    return trace;
}

} // namespace tpscope
