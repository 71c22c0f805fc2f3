// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/graphcapture.h"

#include <algorithm>

#include "graph/phasecapture.h"

namespace tpscope {
namespace {

// torch 2.13 _dynamo/variables/nn_module.py, as the recorded fixtures show it.
constexpr const char *hookCause = "Module-level backwards hooks require compiled autograd.";

void addBreaks(std::vector<GraphBreak> &breaks, const std::vector<BreakEvent> &events,
               const ModelDescription &model, const std::vector<HookSite> &sites) {
    for (const BreakEvent &event : events) {
        GraphBreak entry;
        entry.module = genericName(model.tree.at(event.module).name);
        entry.cause = hookCause;
        entry.frame = event.innermost;
        const auto site = std::ranges::find(sites, event.module, &HookSite::module);
        if (site != sites.end()) {
            entry.rule = site->rule;
            entry.line = site->span.line;
        }
        const bool known = std::ranges::any_of(breaks, [&](const GraphBreak &other) {
            return other.module == entry.module && other.frame == entry.frame;
        });
        if (!known)
            breaks.push_back(std::move(entry));
    }
}

} // namespace

Upstream captureUpstream(HookMode hooks, const std::optional<Upstream> &chosen) {
    if (chosen)
        return *chosen;
    return hooks == HookMode::ModuleBackward ? Upstream{5, 21} : Upstream{};
}

Result<GraphCapture> captureGraphs(const ModelDescription &model, const ResolvedPlan &plan,
                                   HookMode hooks, const CaptureOptions &options) {
    if (!model.flowKnown())
        return fail(ErrorCode::Unsupported, "graphs cannot be predicted: the forward of " +
                                                model.modelType + " is not described");
    if (options.recompileLimit < 1 || options.prefillTokens < 1 || options.decodeSteps < 1 ||
        options.batch < 1)
        return fail(
            ErrorCode::Usage,
            "recompile limit, tokens, steps and batch of a graph prediction are at least 1");
    if (options.staticCacheLength < options.prefillTokens + options.decodeSteps)
        return fail(ErrorCode::Usage,
                    "a static cache of " + std::to_string(options.staticCacheLength) +
                        " positions does not hold " + std::to_string(options.prefillTokens) +
                        " tokens and " + std::to_string(options.decodeSteps) + " steps");
    GraphCapture capture;
    capture.hooks = hooks;
    capture.sites = hookSites(model, plan, hooks);
    std::vector<bool> hooked(model.tree.modules.size(), false);
    for (const HookSite &site : capture.sites)
        if (site.breaksGraph)
            hooked[site.module.value] = true;
    PhaseResult prefill = capturePrefill(model, plan, hooks, hooked, options);
    PhaseResult decode = captureDecode(model, plan, hooks, hooked, options);
    capture.prefill = std::move(prefill.capture);
    capture.decode = std::move(decode.capture);
    // explain() runs one call and subtracts one from the graphs it got; 0 where a forward gives
    // none.
    capture.graphBreaks = std::max(0, capture.prefill.newGraphsPerStep.front() - 1);
    addBreaks(capture.breaks, prefill.breaks, model, capture.sites);
    addBreaks(capture.breaks, decode.breaks, model, capture.sites);
    return capture;
}

} // namespace tpscope
