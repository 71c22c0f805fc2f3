// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/graphlayout.h"

#include <QTest>

#include "graph/launchfolds.h"
#include "session/workspace.h"

using namespace tpscope;

namespace {

// A font of fixed width: 7 pixels a character.
const TextMeasure monospace{[](const QString &text) { return static_cast<int>(text.size()) * 7; }, 15};

GraphCapture captureOf(const char *model, HookMode hooks) {
    const auto workspace = openWorkspace(model);
    if (!workspace)
        qFatal("%s", workspace.error().text().c_str());
    AnalysisOptions options;
    options.hooks = hooks;
    return *analyze(*workspace, PlanChoice(), 2, options).withChosenHooks;
}

std::size_t launchesOf(const std::vector<LaunchFold> &folds) {
    std::size_t launches = 0;
    for (const LaunchFold &fold : folds)
        for (const LaunchStep &step : fold.steps)
            launches += step.graphs.size();
    return launches;
}

std::vector<GraphSection> sections() {
    GraphSection section{"A", "before", "19 launches", {"a note"}, {}};
    GraphGroup outside;
    outside.items.push_back({GraphItem::Kind::Graph, "model.embed_tokens", "Embedding.forward", "model.embed_tokens"});
    GraphGroup layers{"layers 0-35 x 36", {}};
    for (int i = 0; i < 12; ++i) {
        layers.items.push_back({GraphItem::Kind::Graph, "self_attn", "q_proj and a long list of what it holds", "m"});
        layers.items.push_back({GraphItem::Kind::Break, "q_norm", "break", "n"});
    }
    section.groups = {outside, layers};
    return {section, section};
}

} // namespace

class GraphLayoutTest : public QObject {
    Q_OBJECT

private slots:
    void nothingOverlapsAndOrderIsReadingOrder_data() {
        QTest::addColumn<int>("width");
        for (const int width : {200, 333, 640, 1280})
            QTest::addRow("%d", width) << width;
    }
    void nothingOverlapsAndOrderIsReadingOrder() {
        QFETCH(int, width);
        const auto input = sections();
        const GraphLayout layout = layOut(input, width, monospace);
        QCOMPARE(layout.items.size(), std::size_t(50));
        for (std::size_t i = 0; i < layout.items.size(); ++i) {
            const QRect rect = layout.items[i].rect;
            QVERIFY(rect.left() >= 0 && rect.right() < width && rect.bottom() < layout.height);
            QVERIFY(layout.items[i].lines.size() <= 2);
            for (const QString &line : layout.items[i].lines)
                QVERIFY(monospace.width(line) <= layout.items[i].bodyRect.width() || line.size() <= 1);
            QCOMPARE(layout.itemAt(rect.center()), static_cast<int>(i));
            if (i == 0)
                continue;
            const QRect before = layout.items[i - 1].rect;
            QVERIFY(!rect.intersects(before));
            QVERIFY(rect.top() > before.top() || (rect.top() == before.top() && rect.left() > before.right()));
        }
        for (const PlacedGroup &group : layout.groups)
            for (const PlacedItem &item : layout.items)
                QVERIFY(item.section != group.section || item.group != group.group || group.rect.contains(item.rect));
    }

    void textIsWrappedAtSpacesAndEllipsisTellsOfMore() {
        const auto lines = wrapped("q_proj k_proj v_proj attention o_proj", 7 * 14, 2, monospace);
        QCOMPARE(lines, (std::vector<QString>{"q_proj k_proj", QString("v_proj attent") + QChar(0x2026)}));
        QVERIFY(wrapped("", 100, 2, monospace).empty());
    }

    void thirtySixLayersAreOneFold() {
        const GraphCapture capture = captureOf("qwen3-8b", HookMode::ModuleBackward);
        const std::vector<LaunchFold> prefill = foldLaunches(capture.prefill, capture.sites);
        QCOMPARE(launchesOf(prefill), static_cast<std::size_t>(capture.prefill.launches));
        QCOMPARE(prefill.size(), std::size_t(3));
        QCOMPARE(prefill[1].firstLayer, 0);
        QCOMPARE(prefill[1].count(), 36);
        QCOMPARE(prefill[1].steps.size(), std::size_t(7));
        QCOMPARE(prefill[1].steps[2].module, std::string("model.layers.*.self_attn.q_norm"));
        QVERIFY(prefill[1].steps[2].hooked);
        QCOMPARE(prefill[1].steps[0].endsAt, std::string("model.layers.*.self_attn.q_norm"));
    }

    void layersOverTheRecompileLimitShowTheirEagerStretch() {
        const GraphCapture capture = captureOf("qwen3-8b", HookMode::ModuleBackward);
        const std::vector<LaunchFold> decode = foldLaunches(capture.decode, capture.sites);
        QCOMPARE(launchesOf(decode), static_cast<std::size_t>(capture.decode.launches));
        QCOMPARE(decode.size(), std::size_t(4));
        QCOMPARE(decode[1].count() + decode[2].count(), 36);
        const auto eager = std::ranges::count_if(decode[2].steps, [](const LaunchStep &step) {
            return step.eagerBecause == "recompile_limit (8) reached" && step.graphs.empty();
        });
        QCOMPARE(eager, 1);
        QCOMPARE(decode[1].steps.size(), decode[2].steps.size());
    }

    void aForwardWithoutBreaksIsOneLaunch() {
        const GraphCapture capture = captureOf("qwen3-8b", HookMode::PostAccumulateGrad);
        const std::vector<LaunchFold> decode = foldLaunches(capture.decode, capture.sites);
        QCOMPARE(decode.size(), std::size_t(1));
        QCOMPARE(decode[0].steps.size(), std::size_t(1));
        QVERIFY(!decode[0].steps[0].hooked);
    }
};

QTEST_GUILESS_MAIN(GraphLayoutTest)
#include "graphlayouttest.moc"
