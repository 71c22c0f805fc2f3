// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>

#include "graph/graphcapture.h"
#include "run/runtrace.h"

namespace tpscope {

GraphNumbers graphNumbers(const GraphCapture &capture); // source: predicted

// What a runner that compiles nothing puts beside its measured times: the graphs torch.compile would make. Errors: those
// of captureGraphs. recompileLimit: Dynamo's, 8 by default.
Result<GraphNumbers> predictedGraphs(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                                     const Upstream &upstream, int recompileLimit = 8);

} // namespace tpscope
