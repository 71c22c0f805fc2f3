// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "run/runtrace.h"

namespace tpscope {

// A line of progress for whoever waits: what is happening now, and how far it is (0..1, negative unknown).
struct Progress {
    std::string phase;   // "load", "rendezvous", "prefill", "compile", "decode", "report"
    std::string message;
    double fraction = -1.0;
};

// Receives progress and event batches while a run goes on. Called from one thread of the runner; must not block.
class EventSink {
public:
    virtual ~EventSink() = default;
    virtual void progress(const Progress &progress) = 0;
    virtual void events(int rank, const std::vector<Event> &batch) = 0;
};

// The traces of two interleaved runs, in the order they were made: one a decode, or some decodes pooled in one.
struct RunPair {
    std::vector<RunTrace> before;
    std::vector<RunTrace> after;
};

// Runs one decode. Blocking; thread-safe for different objects. Stops soon after stop is requested, with Cancelled.
// Errors: CannotRun, RunFailed, Unsupported, Cancelled. Leaves no process, port or temporary file behind.
class DecodeRunner {
public:
    virtual ~DecodeRunner() = default;
    virtual Result<RunTrace> run(const RunInput &input, EventSink &sink, std::stop_token stop) = 0;

    // Two runs with config.repeat decodes each, A B A B ..., so that slow drifts of the machine meet both alike. Progress is
    // labelled "before ..." and "after ...". This one starts a run for each decode; a runner whose start is slow does better.
    // Errors: as run(), and Usage when the two ask for different numbers of repeats.
    virtual Result<RunPair> runInterleaved(const RunInput &before, const RunInput &after, EventSink &sink,
                                           std::stop_token stop);
};

} // namespace tpscope
