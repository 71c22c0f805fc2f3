// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/launchplacement.h"

#include <algorithm>

namespace tpscope {
namespace {

// True when name is ancestor or below it.
bool within(const std::string &name, const std::string &ancestor) {
    return ancestor.empty() || (name.starts_with(ancestor) &&
                                (name.size() == ancestor.size() || name[ancestor.size()] == '.'));
}

// Capture names modules in full, or below the base model.
ModuleIndex moduleOf(const ModelDescription &model, const std::string &text) {
    if (const auto index = model.tree.indexOf(text))
        return *index;
    return model.tree.indexOf(model.baseModelPrefix + "." + text).value_or(ModuleIndex{0});
}

} // namespace

std::vector<PlacedLaunch> placeLaunches(const ModelDescription &model, const std::vector<WorkItem> &items,
                                        const PhaseCapture &phase) {
    std::vector<PlacedLaunch> placed;
    std::size_t from = 0;
    std::string previous;
    const auto inside = [&](std::size_t item, const std::string &module) {
        return within(model.tree.at(items[item].module).name, module);
    };
    for (int i = 0; i < phase.launches; ++i) {
        const auto index = static_cast<std::size_t>(i);
        const ModuleIndex module =
            index < phase.launchModules.size() ? moduleOf(model, phase.launchModules[index]) : ModuleIndex{0};
        const std::string &name = model.tree.at(module).name;
        std::size_t at = from;
        // Back in an outer frame: what is left of the inner module belonged to the previous launch.
        if (!placed.empty() && previous != name && within(previous, name))
            while (at < items.size() && inside(at, previous))
                ++at;
        while (at < items.size() && !inside(at, name))
            ++at;
        if (at == items.size())
            at = std::min(from, items.empty() ? 0 : items.size() - 1);
        placed.push_back({at, module, layerOf(model.tree, module)});
        from = at + 1;
        previous = name;
    }
    return placed;
}

} // namespace tpscope
