// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/simulatedrunner.h"

#include "run/predictedgraphs.h"
#include "run/prompts.h"
#include "run/simulatedtrace.h"
#include "run/simulation.h"

namespace tpscope {
namespace {

// The prompts' shape; 8 tokens, as graph capture assumes, when none is given.
Result<std::pair<int, int>> promptShape(const RunConfig &config) {
    if (config.inputIds.empty())
        return std::pair{1, CaptureOptions{}.prefillTokens};
    if (const auto checked = checkPrompts(config, 0); !checked)
        return tl::unexpected(checked.error());
    const PromptBatch batch = PromptBatch::of(config.inputIds);
    return std::pair{static_cast<int>(batch.rows), static_cast<int>(batch.tokens)};
}

Result<std::optional<GraphCapture>> captureFor(const RunInput &input, const HardwareProfile &profile) {
    if (!input.config.compile)
        return std::nullopt;
    CaptureOptions options;
    options.upstream = input.config.upstream;
    options.recompileLimit = profile.recompileLimit ? static_cast<int>(profile.recompileLimit->value)
                                                    : input.config.recompileLimit;
    auto capture = captureGraphs(input.model, input.plan, input.config.hooks, options);
    if (!capture)
        return tl::unexpected(capture.error());
    return std::optional(std::move(*capture));
}

} // namespace

Result<RunTrace> SimulatedRunner::run(const RunInput &input, EventSink &sink, std::stop_token stop) {
    const RunConfig &config = input.config;
    const auto profile = loadProfile(config.profile);
    if (!profile)
        return tl::unexpected(profile.error());
    const auto prompt = promptShape(config);
    if (!prompt)
        return tl::unexpected(prompt.error());
    const auto capture = captureFor(input, *profile);
    if (!capture)
        return tl::unexpected(capture.error());

    Simulation simulation(input, *profile, sink, stop);
    const auto [batch, tokens] = *prompt;
    if (const auto ready = simulation.prepare(batch, tokens, *capture ? &**capture : nullptr); !ready)
        return tl::unexpected(ready.error());
    simulation.registerHooks();
    for (int repeat = 0; repeat < config.repeat; ++repeat)
        if (const auto decoded = simulation.decode(); !decoded)
            return tl::unexpected(decoded.error());

    const std::vector<std::string> gaps = simulation.gaps();
    RunTrace trace = simulation.finish();
    trace.backend = Backend::Simulated;
    trace.source = Source::Simulated;
    describeRun(trace, config);
    trace.tp = input.plan.tp;
    trace.collectivesKind = config.collectives;
    if (*capture) {
        trace.graphs = graphNumbers(**capture);
        trace.launchesPerToken = (*capture)->decode.launches;
    }
    std::vector<std::string> outside = extrapolations(*profile, input, batch, trace.launchesPerToken);
    outside.insert(outside.end(), gaps.begin(), gaps.end());
    trace.statements = profileStatements(*profile);
    trace.statements.insert(trace.statements.end(), outside.begin(), outside.end());
    trace.environment = simulatedEnvironment(*profile, input, outside);
    return trace;
}

} // namespace tpscope
