// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "graph/graphcapture.h"
#include "run/costmodel.h"

namespace tpscope {

// One launch of a graph in the walk's order.
struct PlacedLaunch {
    std::size_t beforeItem = 0; // index into the rank's work items
    ModuleIndex module;         // whose frame it runs in
    int layer = -1;             // of that module, -1 outside layers
};

// Puts the launches of a captured call into the walk: each before the first work of its module that no earlier launch
// holds. Only where it is drawn depends on it, never a total: every launch costs the same.
std::vector<PlacedLaunch> placeLaunches(const ModelDescription &model, const std::vector<WorkItem> &items,
                                        const PhaseCapture &phase);

} // namespace tpscope
