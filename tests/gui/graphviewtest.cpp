// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/graphview.h"

#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "plot/countertiles.h"
#include "plot/graphcanvas.h"
#include "viewtesting.h"

using namespace tpscope;

namespace {

// The q_norm rule stands in line 3.
const char *const plan = "tp_plan:\n"
                         "  model.layers.*.self_attn.q_proj: colwise\n"
                         "  model.layers.*.self_attn.q_norm: replicated_with_grad_allreduce\n";

} // namespace

class GraphViewTest : public QObject {
    Q_OBJECT

private:
    struct Shown {
        PlanWorkbench workbench;
        Selection selection;
        RunStore store;
        GraphView view{&workbench, &selection, &store};
        void open(const QString &model) {
            view.resize(900, 700);
            view.show();
            workbench.openModel(model);
            workbench.setPlanText(plan, "plan.yaml");
            QTRY_VERIFY_WITH_TIMEOUT(workbench.analysisIsCurrent() && workbench.analysis(), 20'000);
            QVERIFY(QTest::qWaitForWindowExposed(&view));
            QTRY_VERIFY(view.canvas()->width() > 100);
        }
        const PlacedItem *find(GraphItem::Kind kind, const QString &module) const {
            for (const PlacedItem &placed : view.canvas()->layout().items) {
                const GraphItem &item = view.canvas()->itemOf(placed);
                if (item.kind == kind && item.module == module)
                    return &placed;
            }
            return nullptr;
        }
    };
    static inline const QString qNorm = "model.layers.*.self_attn.q_norm";

private slots:
    void withoutAModelItSaysWhatToDo() {
        Shown shown;
        QVERIFY(!shown.view.hasContent());
    }

    void beforeStandsAboveAfterWithPredictedCounters() {
        Shown shown;
        shown.open("qwen3-tiny");
        QVERIFY(shown.view.hasContent());
        const auto &sections = shown.view.canvas()->sections();
        QCOMPARE(sections.size(), std::size_t(2));
        QVERIFY(sections[0].title.contains("module-backward"));
        QVERIFY(sections[1].title.contains("post-accumulate-grad"));
        const CounterTile breaks = shown.view.tiles()->tiles().front();
        QCOMPARE(breaks.value, QString("11 \u2192 0"));
        QCOMPARE(breaks.source, QString("predicted"));
        QVERIFY(breaks.second.isEmpty());
    }

    void measuredNumbersStandBesideThePredicted() {
        Shown shown;
        shown.open("qwen3-tiny");
        RunEntry entry;
        entry.title = "Recorded";
        entry.comparison = std::make_shared<const Comparison>(viewtesting::measuredComparison());
        shown.store.setCurrent(shown.store.add(entry));
        QCOMPARE(shown.view.tiles()->tiles().front().second, QString("measured 11 \u2192 0"));
    }

    void aClickOnABreakSelectsModuleAndLine() {
        Shown shown;
        shown.open("qwen3-tiny");
        const PlacedItem *placed = shown.find(GraphItem::Kind::Break, qNorm);
        QVERIFY(placed);
        QSignalSpy lines(&shown.selection, &Selection::lineSelected);
        QTest::mouseClick(shown.view.canvas(), Qt::LeftButton, {}, placed->rect.center());
        QCOMPARE(shown.selection.module(), qNorm);
        QCOMPARE(shown.selection.line(), 3);
        QCOMPARE(lines.count(), 1);
        QVERIFY(shown.view.details().contains("q_norm.weight"));
        QVERIFY(shown.view.details().contains("line 3"));
    }

    void aLineOfThePlanMarksItsHook() {
        Shown shown;
        shown.open("qwen3-tiny");
        shown.selection.selectLine(3, 1);
        QVERIFY2(shown.view.details().contains(qNorm), qPrintable(shown.view.details()));
        shown.selection.selectModule("model.layers.1.self_attn.k_norm");
        QVERIFY(shown.view.details().contains("k_norm"));
    }

    void thirtySixLayersAreFolded() {
        Shown shown;
        shown.open("qwen3-8b");
        shown.view.setPhase(GraphPhase::Prefill);
        const auto &groups = shown.view.canvas()->sections().front().groups;
        QVERIFY(std::ranges::any_of(groups, [](const GraphGroup &group) { return group.title.contains("36"); }));
        QVERIFY(shown.view.canvas()->layout().items.size() < 40);
        QVERIFY(shown.view.canvas()->height() < 1200);
        QTemporaryDir folder;
        QVERIFY(shown.view.savePng(folder.filePath("graph.png")));
    }

    void theKeyboardWalksAndChooses() {
        Shown shown;
        shown.open("qwen3-tiny");
        shown.view.canvas()->setFocus(Qt::TabFocusReason);
        const std::size_t count = shown.view.canvas()->layout().items.size();
        for (std::size_t i = 0; i < count && shown.selection.module() != qNorm; ++i) {
            QTest::keyClick(shown.view.canvas(), Qt::Key_Right);
            QTest::keyClick(shown.view.canvas(), Qt::Key_Return);
        }
        QCOMPARE(shown.selection.module(), qNorm);
    }

    void aPlanThatCannotRunSaysSo() {
        Shown shown;
        shown.open("qwen3-tiny");
        shown.workbench.setPlanText("tp_plan:\n  model.layers.*.self_attn.q_proj: nonsense\n", "plan.yaml");
        QTRY_VERIFY(shown.workbench.analysisIsCurrent());
        QVERIFY(!shown.view.hasContent());
    }
};

QTEST_MAIN(GraphViewTest)
#include "graphviewtest.moc"
