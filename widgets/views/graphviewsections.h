// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "plot/countertiles.h"
#include "plot/graphlayout.h"
#include "run/runtrace.h"
#include "session/workspace.h"

// What the view "Hooks & graph" says of an analysis and a run. Pure functions; GUI thread for tr().
namespace tpscope {

enum class GraphPhase { Prefill, Decode };

// One side: heading, notes about hooks and eager frames, and the launches as groups.
GraphSection graphSection(const GraphCapture &capture, GraphPhase phase, bool before);

// Measured graph numbers of a run with this hook mode; none when the run has none (predicted ones do not count).
const GraphNumbers *measuredGraphs(const RunTrace *trace, HookMode hooks);

// Breaks, launches a token, prefill launches, graphs: predicted, with the measured ones below. Any pointer may be null.
std::vector<CounterTile> graphTiles(const GraphCapture *before, const GraphCapture *after,
                                    const GraphNumbers *measuredBefore, const GraphNumbers *measuredAfter);

// The chain from a break or hooked module to the plan, in words; "" when the capture knows no hook there.
struct HookChain {
    QString module;     // generic
    QString parameters; // joined
    QString rule;
    int line = 0;       // 0: the rule is inherited
    bool breaks = false;
    bool registered = false; // under no_grad, so also in a decode
    QString cause;
};
std::optional<HookChain> hookChain(const GraphCapture &capture, const QString &module);
// The module whose hook a line of the plan makes; "" none.
QString hookedModuleAtLine(const GraphCapture &capture, int line);

QString genericModule(const QString &module); // layer numbers as "*"
QString hookWords(HookMode hooks);             // "module-backward (transformers up to 5.21)"

} // namespace tpscope
