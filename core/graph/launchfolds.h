// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "graph/graphcapture.h"

namespace tpscope {

// One launch of a phase's last call as people read it, or a stretch that runs without a graph.
struct LaunchStep {
    std::string module;  // whose code it is; layer numbers as "*" inside a fold; the root: its class name
    std::string program; // CapturedGraph::program
    std::vector<std::string> labels;
    std::string endsAt;  // hooked module whose call ended the graph, layer numbers as "*"; "" no break
    bool hooked = false; // a gradient hook that is registered in this phase sits on `module` itself
    std::vector<int> graphs;  // ids, one a launch that is folded here; several: the layers were compiled apart
    std::string eagerBecause; // not empty: no graph; why a stretch that other layers launch runs in eager here
    bool operator==(const LaunchStep &) const = default;
};

// Launches in order. Layers in a row whose launches read alike are one fold.
struct LaunchFold {
    int firstLayer = -1; // -1: outside layers, and then count is 1
    int lastLayer = -1;
    std::string prefix; // "model.layers"
    std::vector<LaunchStep> steps;
    int count() const { return lastLayer - firstLayer + 1; }
};

// phase: of a capture with these sites.
std::vector<LaunchFold> foldLaunches(const PhaseCapture &phase, const std::vector<HookSite> &sites);

} // namespace tpscope
