// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/launchfolds.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "model/moduletree.h"

namespace tpscope {
namespace {

struct Place {
    std::string prefix; // "model.layers"
    int layer = -1;
};

// The first path segment that is a number, and what stands before it.
Place placeOf(const std::string &module) {
    std::size_t begin = 0;
    while (begin < module.size()) {
        const std::size_t dot = std::min(module.find('.', begin), module.size());
        int layer = -1;
        const auto [end, error] = std::from_chars(module.data() + begin, module.data() + dot, layer);
        if (error == std::errc() && end == module.data() + dot && begin > 0)
            return {module.substr(0, begin - 1), layer};
        begin = dot + 1;
    }
    return {};
}

// Reads alike: everything but the graphs' ids.
bool alike(const LaunchStep &a, const LaunchStep &b) {
    return a.module == b.module && a.program == b.program && a.labels == b.labels && a.endsAt == b.endsAt &&
           a.hooked == b.hooked && a.eagerBecause == b.eagerBecause;
}

bool alike(const LaunchFold &a, const LaunchFold &b) {
    return a.firstLayer >= 0 && b.firstLayer == a.lastLayer + 1 && a.prefix == b.prefix &&
           std::ranges::equal(a.steps, b.steps, [](const auto &x, const auto &y) { return alike(x, y); });
}

std::vector<LaunchFold> byLayer(const PhaseCapture &phase, const std::vector<HookSite> &sites) {
    std::unordered_set<std::string> hooked;
    for (const HookSite &site : sites)
        if (site.registeredUnderNoGrad)
            hooked.insert(site.name);
    std::vector<LaunchFold> folds;
    for (std::size_t i = 0; i < phase.launchSequence.size() && i < phase.launchModules.size(); ++i) {
        const std::string &module = phase.launchModules[i];
        const CapturedGraph &graph = phase.graphList[static_cast<std::size_t>(phase.launchSequence[i])];
        const Place place = placeOf(module);
        if (folds.empty() || folds.back().firstLayer != place.layer || folds.back().prefix != place.prefix)
            folds.push_back({place.layer, place.layer, place.prefix, {}});
        folds.back().steps.push_back({place.layer < 0 ? module : genericName(module), graph.program, graph.labels,
                                      graph.endsAt, hooked.contains(module), {graph.id}, {}});
    }
    return folds;
}

// Once a code object is over its recompile limit, later layers run it without a graph. What they leave out is told by
// the layer with the most launches: where a layer's launches are that one's without some, those are put back as eager.
void addEagerStretches(std::vector<LaunchFold> &folds, const PhaseCapture &phase) {
    std::unordered_map<std::string, std::string> eager;
    for (const CapturedFrame &frame : phase.frames)
        if (!frame.eagerBecause.empty() && frame.graphs > 0)
            eager[frame.name] = frame.eagerBecause;
    if (eager.empty())
        return;
    const std::vector<LaunchFold> known = folds;
    for (LaunchFold &fold : folds) {
        const LaunchFold *fullest = &fold;
        for (const LaunchFold &other : known)
            if (other.prefix == fold.prefix && other.firstLayer >= 0 && other.steps.size() > fullest->steps.size())
                fullest = &other;
        std::vector<LaunchStep> filled;
        std::size_t next = 0;
        for (const LaunchStep &step : fullest->steps) {
            if (next < fold.steps.size() && alike(step, fold.steps[next])) {
                filled.push_back(fold.steps[next++]);
            } else if (const auto found = eager.find(step.program); found != eager.end()) {
                filled.push_back(step);
                filled.back().graphs.clear();
                filled.back().endsAt.clear();
                filled.back().eagerBecause = found->second;
            }
        }
        if (fold.firstLayer >= 0 && next == fold.steps.size())
            fold.steps = std::move(filled);
    }
}

} // namespace

std::vector<LaunchFold> foldLaunches(const PhaseCapture &phase, const std::vector<HookSite> &sites) {
    std::vector<LaunchFold> layers = byLayer(phase, sites);
    addEagerStretches(layers, phase);
    std::vector<LaunchFold> folds;
    for (LaunchFold &layer : layers) {
        if (folds.empty() || !alike(folds.back(), layer)) {
            folds.push_back(std::move(layer));
            continue;
        }
        folds.back().lastLayer = layer.lastLayer;
        for (std::size_t i = 0; i < layer.steps.size(); ++i)
            for (const int graph : layer.steps[i].graphs)
                folds.back().steps[i].graphs.push_back(graph);
    }
    return folds;
}

} // namespace tpscope
