// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/gloorunner.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "run/launcher.h"
#include "run/predictedgraphs.h"
#include "run/prompts.h"
#include "run/rankchannel.h"
#include "run/rankrequest.h"

namespace tpscope {
namespace {

using nlohmann::json;

// Keeps what the ranks say and passes on what a caller wants to see at once.
class Collector : public RankListener {
public:
    Collector(const RunInput &input, EventSink &sink) : m_input(input), m_sink(sink) {
        for (int rank = 0; rank < input.config.tp; ++rank)
            m_events.push_back({rank, {}});
    }

    void message(int rank, const json &message) override {
        const std::string &type = message["type"].get_ref<const std::string &>();
        if (type == "progress" && rank == 0)
            m_sink.progress({message.value("phase", ""), message.value("message", ""), message.value("fraction", -1.0)});
        else if (type == "result" && rank == 0)
            m_result = message;
    }

    void events(int rank, const std::vector<Event> &batch) override {
        m_sink.events(rank, batch);
        if (m_input.config.eventsWanted) {
            auto &kept = m_events[static_cast<std::size_t>(rank)].events;
            kept.insert(kept.end(), batch.begin(), batch.end());
        }
    }

    std::string moduleName(int module) const override {
        const auto &modules = m_input.model.tree.modules;
        const auto index = static_cast<std::size_t>(module);
        if (index >= modules.size())
            return "?";
        return modules[index].name.empty() ? modules[index].className : modules[index].name;
    }

    Result<RunTrace> trace();

private:
    void readResult(RunTrace &trace) const;

    const RunInput &m_input;
    EventSink &m_sink;
    std::vector<RankTrace> m_events;
    json m_result;
};

void Collector::readResult(RunTrace &trace) const {
    m_result.at("output_ids").get_to(trace.outputIds);
    m_result.at("token_ms").get_to(trace.tokenMs);
    m_result.at("time_to_first_token_ms").get_to(trace.timeToFirstTokenMs);
    trace.collectives = collectivesFromJson(m_result.at("collectives"));
    m_result.at("hooks_registered").get_to(trace.hooksRegistered);
    for (const json &row : m_result.at("modules"))
        trace.perModule.push_back({row.at("module").get<std::string>(), row.at("compute_ms").get<double>(),
                                   row.at("collective_ms").get<double>()});
    m_result.at("module_names").get_to(trace.moduleNames);
    for (const auto &[name, version] : m_result.at("versions").items())
        trace.environment.versions[name] = version.get<std::string>();
    m_result.at("attention").get_to(trace.environment.attention);
    m_result.at("dtype").get_to(trace.environment.dtype);
    for (const auto &[key, note] : m_result.at("notes").items())
        trace.environment.notes[key] = note.get<std::string>();
    const auto &logits = m_result.at("last_logits").get_binary();
    trace.lastLogits.resize(logits.size() / sizeof(float));
    if (!logits.empty())
        std::memcpy(trace.lastLogits.data(), logits.data(), trace.lastLogits.size() * sizeof(float));
}

Result<RunTrace> Collector::trace() {
    const RunConfig &config = m_input.config;
    RunTrace trace;
    trace.backend = Backend::Gloo;
    trace.source = Source::Measured;
    describeRun(trace, config);
    trace.collectivesKind = config.collectives;
    trace.environment = currentEnvironment();
    trace.environment.seed = config.seed;
    trace.environment.threads = config.threads;
    trace.opNames = rankOpNames();
    if (m_result.is_null())
        return fail(ErrorCode::RunFailed, "the ranks ended without a result");
    try {
        readResult(trace);
    } catch (const json::exception &error) {
        return fail(ErrorCode::RunFailed, std::string("rank 0 sent an unreadable result: ") + error.what());
    }
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    if (static_cast<unsigned>(config.tp * config.threads) > cores)
        trace.environment.notes["oversubscribed"] =
            std::to_string(config.tp) + (config.threads > 1 ? " ranks of " + std::to_string(config.threads) + " threads"
                                                            : std::string(" ranks")) +
            " on " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
    // Nothing is compiled here. What torch.compile would make of the model stands beside the times, as a prediction.
    if (auto graphs = predictedGraphs(m_input.model, m_input.plan, config.hooks, config.upstream,
                                      config.recompileLimit))
        trace.graphs = std::move(*graphs);
    trace.statements.push_back("native executor: nothing is compiled, no graph was launched; graph numbers are predicted");
    trace.statements.push_back("gradient-sync hooks are not on the path of a decode without gradients; no effect of "
                               "theirs on its latency is to be expected here");
    for (RankTrace &rank : m_events)
        std::ranges::stable_sort(rank.events, {}, &Event::start);
    if (config.eventsWanted)
        trace.ranks = std::move(m_events);
    return trace;
}

} // namespace

Result<RunTrace> GlooRunner::run(const RunInput &input, EventSink &sink, std::stop_token stop) {
    const RunConfig &config = input.config;
    if (!input.model.flowKnown())
        return fail(ErrorCode::Unsupported, "the forward of " + input.model.modelType +
                                                " is not described, so it cannot be run natively");
    if (const auto checked = checkPrompts(config, input.model.dims.vocab); !checked)
        return tl::unexpected(checked.error());
    LaunchOptions options;
    options.program = m_program;
    options.ranks = config.tp;
    options.threads = config.threads;
    options.port = config.port;
    options.timeout = config.timeout;
    options.stall = m_stall;
    Collector collector(input, sink);
    sink.progress({"load", "starting " + std::to_string(config.tp) + (config.tp == 1 ? " rank" : " ranks"), -1.0});
    if (const auto ended = launchRanks(options, requestToJson(config), collector, stop); !ended)
        return tl::unexpected(ended.error());
    return collector.trace();
}

} // namespace tpscope
