// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "run/decoderunner.h"

namespace tpscope {

// Runs a plan in the real transformers library: resources/probe/tpscope_probe.py under torchrun,
// one process a rank, loads the model with plan and hook mode, measures graphs (under
// torch.compile) and the time per token. Needs a Python with torch and transformers
// (pythonlocator.h). What the installed version does not do itself is emulated, and says so in the
// trace's statements. Errors: CannotRun (the library rejects the plan, or its first forward fails),
// BadInput (it cannot read the model), Unsupported (no such Python; random weights too large),
// RunFailed (a rank died or hung, time-out), Cancelled. A run that fails after a timed repeat gives
// a trace with `partial` instead.
class TransformersRunner : public DecodeRunner {
public:
    Result<RunTrace> run(const RunInput &input, EventSink &sink, std::stop_token stop) override;

    // Two runs in interleaved repeats, A B A B ...: each is loaded and compiled once, and while one
    // is timed the other waits. Progress is labelled "before: " and "after: ". Both configurations
    // must ask for the same number of repeats; the time-out is the sum of both.
    Result<RunPair> runInterleaved(const RunInput &before, const RunInput &after, EventSink &sink,
                                   std::stop_token stop) override;
};

} // namespace tpscope
