// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "run/decoderunner.h"

namespace tpscope {

// Decodes on paper: the cost model walked over the model's programs on every rank, in lock step at the collectives, with
// the launches graph capture predicts. Sleeps nowhere, computes no ids, gives the same trace every time. The trace says
// what its profile was made from and what is extrapolated.
class SimulatedRunner : public DecodeRunner {
public:
    // Errors: NotFound and BadInput (profile), Usage (no or empty prompts), Unsupported (flow not described),
    // CannotRun (shapes that do not meet), Cancelled.
    Result<RunTrace> run(const RunInput &input, EventSink &sink, std::stop_token stop) override;
};

} // namespace tpscope
