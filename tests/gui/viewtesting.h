// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>

#include "measure/comparison.h"

// Runs made up for tests of views.
namespace tpscope::viewtesting {

// Two ranks with clocks of their own; a prefill, then `steps` decode steps of 1 ms with 3 computations, 1 collective
// and 1 launch each; the computation of step 3 on rank 0 takes 20 times as long as the others.
inline RunTrace traceWithEvents(int steps, HookMode hooks = HookMode::PostAccumulateGrad) {
    RunTrace trace;
    trace.backend = Backend::Gloo;
    trace.source = Source::Measured;
    trace.tp = 2;
    trace.hooks = hooks;
    trace.model = "qwen3-tiny";
    trace.plan = "auto";
    trace.moduleNames = {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "lm_head"};
    trace.opNames = {"linear", "all_reduce", "launch"};
    for (int rank = 0; rank < 2; ++rank) {
        RankTrace track{rank, {}};
        std::int64_t at = 5'000'000 + rank * 80'000'000; // each rank's clock began at another time
        const auto add = [&](std::int64_t start, std::int64_t duration, EventKind kind, int token, int module, int op,
                             std::int64_t bytes) {
            Event event;
            event.start = start;
            event.duration = duration;
            event.kind = kind;
            event.token = token;
            event.module = module;
            event.op = op;
            event.bytes = bytes;
            track.events.push_back(event);
        };
        add(at - 2'000'000, 1'000'000, EventKind::Phase, -1, -1, -1, 0);
        add(at, 3'000'000, EventKind::Token, -1, -1, -1, 0);
        at += 3'000'000;
        for (int step = 0; step < steps; ++step) {
            const bool slow = step == 3 && rank == 0;
            const std::int64_t extra = slow ? 1'900'000 : 0;
            add(at, 1'000'000 + extra, EventKind::Token, step, -1, -1, 0);
            add(at, 20'000, EventKind::Launch, step, 0, 2, 0);
            add(at + 20'000, 100'000 + extra, EventKind::Compute, step, 0, 0, 0);
            add(at + 120'000 + extra, 100'000, EventKind::Compute, step, 1, 0, 0);
            add(at + 220'000 + extra, 100'000, EventKind::Collective, step, 1, 1, 1536);
            add(at + 320'000 + extra, 100'000, EventKind::Compute, step, 2, 0, 0);
            at += 1'000'000 + extra;
        }
        trace.ranks.push_back(std::move(track));
    }
    for (int step = 2; step < steps; ++step)
        trace.tokenMs.push_back(step == 3 ? 2.9 : 1.0 + 0.01 * (step % 7));
    trace.timeToFirstTokenMs = {3.0};
    return trace;
}

inline GraphNumbers graphs(int breaks, int launches, Source source) {
    GraphNumbers numbers;
    numbers.source = source;
    numbers.graphBreaks = breaks;
    numbers.prefillGraphs = breaks + 1;
    numbers.prefillLaunches = launches;
    numbers.decodeGraphs = breaks + 1;
    numbers.decodeLaunches = launches;
    return numbers;
}

// Transformers, measured: 11 breaks and 2 ms a token before, none and 1 ms after; no events.
inline Comparison measuredComparison() {
    RunTrace before;
    before.backend = Backend::Transformers;
    before.source = Source::Measured;
    before.tp = 2;
    before.hooks = HookMode::ModuleBackward;
    before.model = "qwen3-tiny";
    before.plan = "auto";
    before.launchesPerToken = 19;
    before.timeToFirstTokenMs = {9.0, 9.5};
    before.outputIds = {{1, 2, 3}};
    before.graphs = graphs(11, 19, Source::Measured);
    RunTrace after = before;
    after.hooks = HookMode::PostAccumulateGrad;
    after.launchesPerToken = 1;
    after.graphs = graphs(0, 1, Source::Measured);
    for (int i = 0; i < 80; ++i) {
        before.tokenMs.push_back(2.0 + 0.05 * ((i * 7) % 11));
        after.tokenMs.push_back(1.0 + 0.05 * ((i * 5) % 13));
    }
    return compare(std::move(before), std::move(after));
}

} // namespace tpscope::viewtesting
