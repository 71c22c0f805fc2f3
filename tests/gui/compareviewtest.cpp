// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/compareview.h"

#include <QLabel>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>

#include "plot/countertiles.h"
#include "plot/intervalbar.h"
#include "views/compareviewfacts.h"
#include "viewtesting.h"

using namespace tpscope;

namespace {

bool says(const QWidget &widget, const QString &text) {
    for (const QLabel *label : widget.findChildren<QLabel *>())
        if (label->text().contains(text))
            return true;
    return false;
}

} // namespace

class CompareViewTest : public QObject {
    Q_OBJECT

private slots:
    void theVerdictComesFirstInWords() {
        RunStore store;
        PlanWorkbench workbench;
        CompareView view(&store, &workbench);
        QVERIFY(!view.hasContent());
        RunEntry entry;
        entry.comparison = std::make_shared<const Comparison>(viewtesting::measuredComparison());
        store.setCurrent(store.add(entry));
        QVERIFY(view.hasContent());
        QVERIFY2(view.headline().contains("Faster"), qPrintable(view.headline()));
        QCOMPARE(view.tiles()->tiles().front().value, QString("11 \u2192 0"));
        QCOMPARE(view.tiles()->tiles().front().source, QString("measured"));
        QVERIFY(says(view, "same plan: auto"));
        QVERIFY(!view.findChildren<QTableWidget *>().isEmpty());
        view.resize(900, 600);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
        QTemporaryDir folder;
        QVERIFY(view.savePng(folder.filePath("compare.png")));
    }

    void aSingleRunIsNoComparison() {
        RunStore store;
        PlanWorkbench workbench;
        CompareView view(&store, &workbench);
        RunEntry entry;
        entry.title = "Run one";
        entry.trace = std::make_shared<const RunTrace>(viewtesting::traceWithEvents(5));
        store.setCurrent(store.add(entry));
        QVERIFY(!view.hasContent());
        QVERIFY(says(view, "Run one"));
    }

    void simulatedTimesGiveNoVerdict() {
        Comparison comparison = viewtesting::measuredComparison();
        comparison.before.source = comparison.after.source = Source::Simulated;
        comparison = compare(comparison.before, comparison.after);
        const VerdictWords words = verdictWords(comparison);
        QVERIFY(words.headline.startsWith("Not measured; simulated"));
        QVERIFY(words.reason.contains("no interval"));
    }

    void plansThatDifferAreListedRuleByRule() {
        Comparison comparison = viewtesting::measuredComparison();
        comparison.before.plan = "a.yaml";
        comparison.before.planText = "tp_plan:\n  lm_head: colwise_gather_output\n"
                                     "  model.embed_tokens: embedding_rowwise\n";
        comparison.after.plan = "b.yaml";
        comparison.after.planText = "tp_plan:\n  lm_head: colwise\n  model.norm: sequence_parallel\n";
        const PlanDifference difference = planDifference(comparison, nullptr, {});
        QCOMPARE(difference.rules, (std::vector<RuleDifference>{{"lm_head", "colwise_gather_output", "colwise"},
                                                               {"model.embed_tokens", "embedding_rowwise", {}},
                                                               {"model.norm", {}, "sequence_parallel"}}));
        QVERIFY(difference.summary.contains("3 rules differ"));
        comparison.before.plan.clear();
        QVERIFY(planDifference(comparison, nullptr, {}).summary.contains("does not say"));
    }

    void theIntervalStandsWhereItsValuesAre() {
        QCOMPARE(positionOn(0, -1, 1, 200, 20), 100.0);
        QCOMPARE(positionOn(-1, -1, 1, 200, 20), 20.0);
        QCOMPARE(positionOn(1, -1, 1, 200, 20), 180.0);
        QCOMPARE(positionOn(3, 2, 2, 200, 20), 100.0);
    }
};

QTEST_MAIN(CompareViewTest)
#include "compareviewtest.moc"
