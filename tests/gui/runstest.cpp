// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractItemModelTester>

#include "models/runcontroller.h"
#include "models/runsmodel.h"
#include "views/runsview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

class RunsTest : public QObject {
    Q_OBJECT

private slots:
    void keepsTheModelContract() {
        RunStore store;
        RunsModel model(store);
        const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        RunEntry entry;
        entry.title = QStringLiteral("a");
        entry.state = QStringLiteral("running");
        entry.id = store.add(entry);
        entry.state = QStringLiteral("done");
        store.update(entry);
        store.add(entry);
        QCOMPARE(model.rowCount(), 2);
        QVERIFY(model.index(1, RunsModel::StateColumn).data().toString().contains(QLatin1String("done")));
    }

    void aSimulatedRunEndsInTheStore() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        workbench.setPlanText(QString::fromUtf8(rightPlan), {});
        QVERIFY(analysed(workbench));
        RunStore store;
        RunController runs(workbench, store);
        runs.setBackend(Backend::Simulated);
        QSignalSpy running(&runs, &RunController::runningChanged);
        QSignalSpy progressed(&runs, &RunController::progressed);
        runs.run();
        QTRY_COMPARE_WITH_TIMEOUT(running.count(), 2, patienceMs);
        QVERIFY(!runs.isRunning());
        const RunEntry &entry = store.entries().back();
        QCOMPARE(entry.state, QStringLiteral("done"));
        QVERIFY2(entry.trace, qPrintable(entry.message));
        QCOMPARE(entry.trace->source, Source::Simulated);
        QCOMPARE(store.current(), entry.id);
        QVERIFY(progressed.count() > 2);
    }

    void hooksAreComparedBeforeAndAfter() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        RunStore store;
        RunController runs(workbench, store);
        runs.setBackend(Backend::Simulated);
        QSignalSpy running(&runs, &RunController::runningChanged);
        runs.compareHooks();
        QTRY_COMPARE_WITH_TIMEOUT(running.count(), 2, patienceMs);
        QVERIFY2(store.currentComparison(), qPrintable(store.entries().back().message));
        QCOMPARE(store.currentComparison()->before.hooks, HookMode::ModuleBackward);
        QCOMPARE(store.currentComparison()->verdict, Verdict::NotMeasured);
    }

    void aFailedRunShowsItsOwnWords() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        workbench.setPlanText(QString::fromUtf8(wrongPlan()), {});
        QVERIFY(analysed(workbench));
        RunStore store;
        RunsView view(&store);
        RunController runs(workbench, store);
        runs.setBackend(Backend::Simulated);
        QSignalSpy running(&runs, &RunController::runningChanged);
        runs.run();
        QTRY_COMPARE_WITH_TIMEOUT(running.count(), 2, patienceMs);
        QCOMPARE(store.entries().back().state, QStringLiteral("failed"));
        QVERIFY2(view.words().contains(QLatin1String("plan.yaml:6:36")), qPrintable(view.words()));
        QVERIFY(view.words().contains(QLatin1String("colwize")));
    }

    void aMissingProgramIsSaid() {
        qputenv("TPSCOPE_PROGRAM", "/nowhere/tpscope");
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        RunStore store;
        RunController runs(workbench, store);
        runs.run();
        QTRY_COMPARE(store.entries().back().state, QStringLiteral("failed"));
        QVERIFY(store.entries().back().message.contains(QLatin1String("/nowhere/tpscope")));
        qunsetenv("TPSCOPE_PROGRAM");
    }

    void aRunCanBeStopped() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        RunStore store;
        RunController runs(workbench, store);
        runs.setBackend(Backend::Gloo);
        runs.setNewTokens(100000);
        QSignalSpy running(&runs, &RunController::runningChanged);
        runs.run();
        QTRY_VERIFY_WITH_TIMEOUT(store.entries().back().fraction > 0, patienceMs);
        runs.stop();
        QTRY_COMPARE_WITH_TIMEOUT(running.count(), 2, patienceMs);
        QCOMPARE(store.entries().back().state, QStringLiteral("cancelled"));
    }
};

QTEST_MAIN(RunsTest)
#include "runstest.moc"
