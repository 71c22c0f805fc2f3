// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/phasecapture.h"

namespace tpscope {
namespace {

std::string placeOf(const ModelDescription &model, ModuleIndex module) {
    const Module &where = model.tree.at(module);
    return where.name.empty() ? where.className : where.name;
}

void addCall(PhaseCapture &capture, const FrameRunner &runner) {
    const int before = capture.graphs;
    capture.graphs = static_cast<int>(runner.graphs().size());
    capture.newGraphsPerStep.push_back(capture.graphs - before);
    capture.launches = static_cast<int>(runner.launches().size());
    capture.launchesPerStep.push_back(capture.launches);
}

PhaseResult finish(const ModelDescription &model, PhaseCapture capture, const FrameRunner &runner) {
    for (const FrameRunner::Launch &launch : runner.launches()) {
        capture.launchSequence.push_back(launch.graph);
        capture.launchModules.push_back(placeOf(model, launch.module));
    }
    capture.breakCounter = runner.breakCounter();
    capture.graphList = runner.graphs();
    capture.frames = runner.frames();
    return {std::move(capture), runner.breaks()};
}

} // namespace

PhaseResult capturePrefill(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                           const std::vector<bool> &hooked, const CaptureOptions &options) {
    FrameRunner runner(model, plan, hooks, hooked, options, nullptr, options.prefillTokens);
    PhaseCapture capture;
    for (int i = 0; i < 2; ++i) {
        runner.forward(
            {{"input_ids", TracedValue::tensor({options.batch, options.prefillTokens}, true)}});
        addCall(capture, runner);
    }
    return finish(model, std::move(capture), runner);
}

PhaseResult captureDecode(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                          const std::vector<bool> &hooked, const CaptureOptions &options) {
    StaticCache cache(model, options.staticCacheLength, options.prefillTokens);
    FrameRunner runner(model, plan, hooks, hooked, options, &cache, 1);
    PhaseCapture capture;
    for (int i = 0; i < options.decodeSteps; ++i) {
        runner.forward({{"input_ids", TracedValue::tensor({options.batch, 1}, true)},
                        {"position_ids", TracedValue::tensor({options.batch, 1}, true)},
                        {"cache", TracedValue::cache()}});
        addCall(capture, runner);
        cache.advance(1);
    }
    return finish(model, std::move(capture), runner);
}

} // namespace tpscope
