// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/transformersrunner.h"

#include <filesystem>

#include "probe/proberesult.h"
#include "probe/probesession.h"
#include "run/predictedgraphs.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

Result<void> keepLogits(const ProbeSession &session, const RunConfig &config) {
    if (config.logitsFile.empty())
        return {};
    std::error_code ec;
    fs::copy_file(session.paths().logits(), config.logitsFile, fs::copy_options::overwrite_existing,
                  ec);
    if (ec)
        return fail(ErrorCode::RunFailed, "the logits could not be written: " + ec.message(),
                    Location{config.logitsFile});
    return {};
}

// The prediction beside what was measured. It holds for the version whose rules the description follows.
void addPrediction(RunTrace &trace, const RunInput &input) {
    if (!trace.graphs || !input.model.flowKnown())
        return;
    const std::string installed = trace.environment.versions["transformers"];
    const std::string rules = input.config.upstream.text();
    if (installed != rules && !installed.starts_with(rules + ".")) {
        trace.statements.push_back("graphs are not predicted: transformers " + installed +
                                   " is installed and the rules known are those of " + rules);
        return;
    }
    if (auto graphs = predictedGraphs(input.model, input.plan, input.config.hooks, input.config.upstream,
                                      input.config.recompileLimit))
        trace.predictedGraphs = std::move(*graphs);
}

// The trace of a probe that has ended, or whose wait ended with an error. Samples of a failed run
// are kept.
Result<RunTrace> conclude(ProbeSession &session, const Result<void> &waited,
                          const RunInput &input, EventSink &sink) {
    const RunConfig &config = input.config;
    const auto failed = [&](const Error &error) -> Result<RunTrace> {
        if (error.code == ErrorCode::RunFailed && !session.repeats().empty())
            return partialTrace(session.repeats(), config, error.message);
        return tl::unexpected(error);
    };
    if (!waited)
        return failed(waited.error());
    const auto result = session.result();
    if (!result)
        return failed(result.error());
    if (auto kept = keepLogits(session, config); !kept)
        return tl::unexpected(kept.error());
    auto trace = traceOfResult(*result, config);
    if (trace)
        addPrediction(*trace, input);
    if (trace && config.eventsWanted && !trace->ranks.empty())
        sink.events(0, trace->ranks.front().events);
    return trace;
}

// Starts a probe and waits until it is loaded, compiled and waits for permission.
Result<ProbeSession> startReady(const RunInput &input, const std::string &label, EventSink &sink,
                                const ProbeLimits &limits) {
    auto session = ProbeSession::start(input, label, true);
    if (!session)
        return session;
    const auto ready = [&] { return session->readyRepeat() >= 0; };
    if (auto waited = session->waitUntil(sink, limits, ready); !waited)
        return tl::unexpected(waited.error());
    if (ready())
        return session;
    auto result = session->result(); // it ended by itself
    return result ? fail(ErrorCode::RunFailed, label + "the run ended before it was measured")
                  : tl::unexpected(result.error());
}

// Lets both make one repeat after the other. Errors: a probe ended early, time-out, Cancelled.
Result<void> takeTurns(ProbeSession &a, ProbeSession &b, int repeats, EventSink &sink,
                       const ProbeLimits &limits) {
    for (int repeat = 0; repeat < repeats; ++repeat)
        for (ProbeSession *session : {&a, &b}) {
            if (auto allowed = session->allowRepeats(repeat + 1); !allowed)
                return allowed;
            const auto done = [&] {
                return session->repeats().size() > static_cast<std::size_t>(repeat);
            };
            if (auto waited = session->waitUntil(sink, limits, done); !waited)
                return waited;
            if (done())
                continue;
            auto result = session->result();
            return result ? fail(ErrorCode::RunFailed, "the run ended before its last repeat")
                          : tl::unexpected(result.error());
        }
    return {};
}

} // namespace

Result<RunTrace> TransformersRunner::run(const RunInput &input, EventSink &sink,
                                         std::stop_token stop) {
    const ProbeLimits limits = ProbeLimits::from(std::move(stop), input.config.timeout);
    auto session = ProbeSession::start(input, "", false);
    if (!session)
        return tl::unexpected(session.error());
    const auto waited = session->waitUntil(sink, limits, [] { return false; });
    return conclude(*session, waited, input, sink);
}

Result<RunPair> TransformersRunner::runInterleaved(const RunInput &before, const RunInput &after,
                                                   EventSink &sink, std::stop_token stop) {
    if (before.config.repeat != after.config.repeat)
        return fail(ErrorCode::Usage, "interleaved runs need the same number of repeats");
    const ProbeLimits limits = ProbeLimits::from(std::move(stop), before.config.timeout + after.config.timeout);
    // One after the other: compiling both at once would only make each slower.
    auto a = startReady(before, "before: ", sink, limits);
    if (!a)
        return tl::unexpected(a.error());
    auto b = startReady(after, "after: ", sink, limits);
    if (!b)
        return tl::unexpected(b.error());
    if (auto turns = takeTurns(*a, *b, before.config.repeat, sink, limits); !turns) {
        const Error &error = turns.error();
        if (error.code != ErrorCode::RunFailed || a->repeats().empty() || b->repeats().empty())
            return tl::unexpected(error);
        return RunPair{{partialTrace(a->repeats(), before.config, error.message)},
                       {partialTrace(b->repeats(), after.config, error.message)}};
    }
    const auto never = [] { return false; };
    auto traceA = conclude(*a, a->waitUntil(sink, limits, never), before, sink);
    auto traceB = conclude(*b, b->waitUntil(sink, limits, never), after, sink);
    if (!traceA)
        return tl::unexpected(traceA.error());
    if (!traceB)
        return tl::unexpected(traceB.error());
    return RunPair{{std::move(*traceA)}, {std::move(*traceB)}};
}

} // namespace tpscope
