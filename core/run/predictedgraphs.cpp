// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/predictedgraphs.h"

#include <algorithm>

namespace tpscope {

GraphNumbers graphNumbers(const GraphCapture &capture) {
    GraphNumbers numbers;
    numbers.source = Source::Predicted;
    numbers.prefillGraphs = capture.prefill.graphs;
    numbers.graphBreaks = capture.graphBreaks;
    numbers.prefillLaunches = capture.prefill.launches;
    numbers.decodeGraphs = capture.decode.graphs;
    numbers.decodeLaunches = capture.decode.launches;
    numbers.breakCounter = capture.prefill.breakCounter;
    numbers.decodeBreakCounter = capture.decode.breakCounter;
    numbers.prefillSequence = capture.prefill.launchSequence;
    numbers.decodeSequence = capture.decode.launchSequence;
    for (const GraphBreak &graphBreak : capture.breaks)
        if (std::ranges::find(numbers.reasons, graphBreak.cause) == numbers.reasons.end())
            numbers.reasons.push_back(graphBreak.cause);
    return numbers;
}

Result<GraphNumbers> predictedGraphs(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                                     const Upstream &upstream, int recompileLimit) {
    CaptureOptions options;
    options.upstream = upstream;
    options.recompileLimit = recompileLimit;
    const auto capture = captureGraphs(model, plan, hooks, options);
    if (!capture)
        return tl::unexpected(capture.error());
    return graphNumbers(*capture);
}

} // namespace tpscope
