// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/simulatedrunner.h"

#include <QTest>
#include <algorithm>

#include "base/summary.h"
#include "run/costmodel.h"
#include "session/workspace.h"

using namespace tpscope;

namespace {

struct CountingSink : EventSink {
    std::size_t seen = 0;
    void progress(const Progress &) override {}
    void events(int, const std::vector<Event> &batch) override { seen += batch.size(); }
};

Result<RunTrace> simulate(const std::string &model, int tp, HookMode hooks, RunConfig config = {}) {
    const auto workspace = openWorkspace(model);
    if (!workspace)
        return tl::unexpected(workspace.error());
    const ModelDescription &description = (*workspace)->modelFor(hooks);
    const ResolvedPlan plan =
        resolvePlan(description, *PlanChoice::parse("auto"), (*workspace)->builtinOrNull(), tp);
    config.backend = Backend::Simulated;
    config.tp = tp;
    config.hooks = hooks;
    config.upstream = captureUpstream(hooks, std::nullopt);
    if (config.inputIds.empty())
        config.inputIds = {std::vector<std::int64_t>(12, 1)};
    CountingSink sink;
    return SimulatedRunner().run({description, plan, config}, sink, {});
}

RunConfig neuron() {
    RunConfig config;
    config.profile = "reported-neuron-2core";
    return config;
}

bool extrapolated(const RunTrace &trace) {
    return std::ranges::any_of(trace.statements,
                               [](const std::string &line) { return line.starts_with("extrapolated"); });
}

} // namespace

class SimulatedRunnerTest : public QObject {
    Q_OBJECT
private slots:
    void reproducesThePublishedFigures() {
        const auto before = simulate("qwen3-8b", 2, HookMode::ModuleBackward, neuron());
        const auto after = simulate("qwen3-8b", 2, HookMode::PostAccumulateGrad, neuron());
        QVERIFY(before && after);
        QVERIFY(std::abs(summarize(before->tokenMs).median - 140.0) < 0.05);
        QVERIFY(std::abs(summarize(after->tokenMs).median - 37.6) < 0.05);
        QCOMPARE(before->launchesPerToken, 257);
        QCOMPARE(after->launchesPerToken, 1);
        QCOMPARE(before->hooksRegistered, 72);
        QCOMPARE(after->hooksRegistered, 0);
        QVERIFY(!extrapolated(*before) && !extrapolated(*after));
        QVERIFY(before->outputIds.empty());
        QVERIFY(before->source == Source::Simulated && before->graphs->source == Source::Predicted);
    }

    void saysWhatIsExtrapolated() {
        QVERIFY(extrapolated(*simulate("qwen3-8b", 4, HookMode::PostAccumulateGrad, neuron())));
        QVERIFY(extrapolated(*simulate("qwen3-0.6b", 2, HookMode::PostAccumulateGrad, neuron())));
        RunConfig batch = neuron();
        batch.inputIds = {{1, 2}, {3, 4}};
        QVERIFY(extrapolated(*simulate("qwen3-8b", 2, HookMode::PostAccumulateGrad, batch)));
    }

    void isDeterministicAndTheContextGrows() {
        const auto a = simulate("qwen3-tiny", 2, HookMode::None);
        const auto b = simulate("qwen3-tiny", 2, HookMode::None);
        QVERIFY(a && b);
        QVERIFY(a->tokenMs == b->tokenMs);
        QVERIFY(std::ranges::is_sorted(a->tokenMs) && a->tokenMs.front() < a->tokenMs.back());
    }

    // Spans of one rank nest, and every rank leaves a collective when the last does.
    void eventsNest() {
        RunConfig config = neuron();
        config.eventsWanted = true;
        const auto trace = simulate("qwen3-8b", 8, HookMode::ModuleBackward, config);
        QVERIFY(trace);
        QCOMPARE(trace->ranks.size(), std::size_t{8});
        for (const RankTrace &rank : trace->ranks) {
            std::int64_t end = 0, tokenEnd = 0;
            for (const Event &event : rank.events) {
                if (event.kind == EventKind::Token || event.kind == EventKind::Phase) {
                    tokenEnd = event.start + event.duration;
                    continue;
                }
                QVERIFY(event.start >= end);
                end = event.start + event.duration;
                QVERIFY(event.kind == EventKind::HookRegistration || end <= tokenEnd);
            }
        }
    }
};

QTEST_APPLESS_MAIN(SimulatedRunnerTest)
#include "simulatedrunnertest.moc"
