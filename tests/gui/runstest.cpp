// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractItemModelTester>
#include <QFile>
#include <QFileInfo>

#include <csignal>
#include <nlohmann/json.hpp>

#include "models/runcontroller.h"
#include "models/runlines.h"
#include "models/runsmodel.h"
#include "views/runsview.h"
#include "viewtesting.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

namespace {

QList<qint64> childrenOf(qint64 parent) {
    QFile file(QStringLiteral("/proc/%1/task/%1/children").arg(parent));
    QList<qint64> children;
    if (file.open(QIODevice::ReadOnly))
        for (const QByteArray &child : file.readAll().split(' '))
            if (const qint64 id = child.toLongLong(); id > 0)
                children << id;
    return children;
}

} // namespace

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

    void aRankThatDiesIsNamedWithItsWords() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        RunStore store;
        RunsView view(&store);
        RunController runs(workbench, store);
        runs.setBackend(Backend::Gloo);
        runs.setNewTokens(100000);
        QSignalSpy running(&runs, &RunController::runningChanged);
        runs.run();
        QTRY_VERIFY_WITH_TIMEOUT(store.entries().back().fraction > 0, patienceMs);
        const auto ranks = childrenOf(childrenOf(QCoreApplication::applicationPid()).value(0));
        QCOMPARE(ranks.size(), 2);
        ::kill(static_cast<pid_t>(ranks.back()), SIGKILL);
        QTRY_COMPARE_WITH_TIMEOUT(running.count(), 2, patienceMs);
        QCOMPARE(store.entries().back().state, QStringLiteral("failed"));
        QVERIFY2(view.words().contains(QLatin1String("rank ")), qPrintable(view.words()));
        for (const qint64 rank : ranks)
            QVERIFY(!QFileInfo::exists(QStringLiteral("/proc/%1").arg(rank)));
    }

    void linesAreParsedElsewhereAndToldInOrder() {
        RunLines lines;
        QStringList told;
        connect(&lines, &RunLines::progressed, this,
                [&](const QString &, const QString &message, double) { told << message; });
        connect(&lines, &RunLines::runFinished, this, [&](const std::shared_ptr<const RunTrace> &trace) {
            told << QStringLiteral("result %1").arg(trace->ranks.at(0).events.size());
        });
        connect(&lines, &RunLines::unreadableResult, this, [&] { told << QStringLiteral("unreadable"); });
        connect(&lines, &RunLines::finished, this, [&] { told << QStringLiteral("end"); });
        const std::string result = [] {
            nlohmann::json json = toJson(viewtesting::traceWithEvents(2000));
            json["type"] = "result";
            return json.dump();
        }();
        const auto count = viewtesting::traceWithEvents(2000).ranks.at(0).events.size();
        const QByteArray all = QByteArrayLiteral("{\"type\":\"progress\",\"message\":\"first\"}\nnoise\n") +
                               QByteArray::fromStdString(result) +
                               "\n{\"type\":\"progress\",\"message\":\"last\"}\n{\"type\":\"result\"}";
        for (qsizetype at = 0; at < all.size(); at += 4093)
            lines.feed(all.mid(at, 4093));
        lines.finish();
        QCOMPARE(told, QStringList()); // whoever feeds does not wait
        QTRY_VERIFY_WITH_TIMEOUT(told.contains(QStringLiteral("end")), patienceMs);
        QCOMPARE(told, (QStringList{"first", QStringLiteral("result %1").arg(count), "last", "unreadable", "end"}));
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
