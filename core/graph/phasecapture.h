// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "graph/framerunner.h"
#include "graph/graphcapture.h"

namespace tpscope {

// One phase simulated by itself, for any set of hooked modules (by module index), also sets no plan
// can express.
struct PhaseResult {
    PhaseCapture capture;
    std::vector<BreakEvent> breaks;
};

// Two calls with options.prefillTokens tokens and no cache.
PhaseResult capturePrefill(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                           const std::vector<bool> &hooked, const CaptureOptions &options);
// options.decodeSteps calls with one token, on a static cache that already holds
// options.prefillTokens tokens.
PhaseResult captureDecode(const ModelDescription &model, const ResolvedPlan &plan, HookMode hooks,
                          const std::vector<bool> &hooked, const CaptureOptions &options);

} // namespace tpscope
