// SPDX-License-Identifier: GPL-3.0-or-later
// Redraw of a timeline of a million events at 1280x720, offscreen: median of 60 redraws at each of five zooms.
#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <qcustomplot.h>
#include <string>
#include <vector>

#include "plot/timelineplottable.h"
#include "style/theme.h"
#include "views/timelineview.h"

using namespace tpscope;

namespace {

constexpr int events = 1'000'000;

// Decode steps of 500 events over two ranks: launches, computations, collectives.
RunTrace millionEvents() {
    RunTrace trace;
    trace.backend = Backend::Gloo;
    trace.source = Source::Measured;
    trace.tp = 2;
    trace.moduleNames = {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "lm_head"};
    trace.opNames = {"linear", "all_reduce"};
    std::uint32_t random = 1;
    for (int rank = 0; rank < 2; ++rank) {
        RankTrace track{rank, {}};
        track.events.reserve(events / 2);
        std::int64_t at = 0;
        for (int i = 0; i < events / 2; ++i) {
            random = random * 1664525U + 1013904223U;
            Event event;
            event.start = at;
            event.duration = 2'000 + random % 20'000 + (random % 9973 == 0 ? 3'000'000 : 0);
            event.kind = i % 5 == 0 ? EventKind::Collective : i % 5 == 1 ? EventKind::Launch : EventKind::Compute;
            event.token = i / 500;
            event.module = i % 3;
            event.op = event.kind == EventKind::Collective ? 1 : 0;
            event.bytes = event.op * 4096;
            at += event.duration + random % 500;
            track.events.push_back(event);
        }
        trace.ranks.push_back(std::move(track));
    }
    return trace;
}

double medianRedrawMs(TimelineView &view) {
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
        QElapsedTimer timer;
        timer.start();
        view.plot()->replot(QCustomPlot::rpImmediateRefresh);
        times.push_back(static_cast<double>(timer.nsecsElapsed()) / 1e6);
    }
    std::ranges::nth_element(times, times.begin() + 30);
    return times[30];
}

// Peak resident memory of this process in MiB; 0 where /proc does not tell.
double peakMemoryMiB() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:"))
            return std::stod(line.substr(6)) / 1024.0;
    return 0.0;
}

} // namespace

int main(int argc, char **argv) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    Theme::apply(ThemeKind::Light);
    RunStore store;
    Selection selection;
    TimelineView view(&store, &selection);
    view.resize(1280, 720);
    view.show();
    RunEntry entry;
    entry.trace = std::make_shared<const RunTrace>(millionEvents());
    selection.selectRank(-1); // all ranks
    QElapsedTimer timer;
    timer.start();
    store.setCurrent(store.add(entry));
    while (!view.hasContent())
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 50);
    std::printf("%d events into lanes (on a worker): %lld ms\n", events, static_cast<long long>(timer.elapsed()));
    const TimeRange all = view.fullRange();
    double worst = 0.0;
    for (const double share : {1.0, 0.3, 0.1, 0.01, 0.0005}) {
        view.showRange(zoomed(all, (all.from + all.to) / 2, share, all));
        const double ms = medianRedrawMs(view);
        worst = std::max(worst, ms);
        std::printf("redraw, %8.3f %% of the run shown: %6.2f ms (median of 60)\n", share * 100, ms);
    }
    const double memory = peakMemoryMiB();
    std::printf("peak memory: %.0f MiB, goal 250 MiB: %s\n", memory, memory <= 250 ? "met" : "MISSED");
    std::printf("worst median: %.2f ms, goal 16 ms: %s\n", worst, worst <= 16.0 ? "met" : "MISSED");
    return worst <= 16.0 ? 0 : 1;
}
