// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractItemModelTester>
#include <QTableView>

#include "models/findingsmodel.h"
#include "models/selection.h"
#include "views/findingsview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

class FindingsTest : public QObject {
    Q_OBJECT

private slots:
    void keepsTheModelContract() {
        FindingsModel model;
        const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        Diagnostic finding;
        finding.code = "TP001";
        finding.message = "unknown style";
        finding.span = {10, 4, 3, 5};
        model.setRows({finding, Diagnostic{}});
        QCOMPARE(model.index(0, FindingsModel::LineColumn).data().toString(), QStringLiteral("3"));
        QCOMPARE(model.index(1, FindingsModel::LineColumn).data().toString(), QStringLiteral("no line"));
        model.setRows({});
    }

    void aClickGoesToLineAndModule() {
        PlanWorkbench workbench;
        Selection selection;
        FindingsView view(&workbench, &selection);
        QVERIFY(openTiny(workbench));
        workbench.setPlanText(QString::fromUtf8(wrongPlan()), {});
        QVERIFY(analysed(workbench));
        QVERIFY(view.model().rowCount() > 0);
        QVERIFY2(view.title().contains(QLatin1String("error")), qPrintable(view.title()));
        QSignalSpy line(&selection, &Selection::lineSelected);
        emit view.table().clicked(view.model().index(0, FindingsModel::MessageColumn));
        QCOMPARE(line.first().at(0).toInt(), 6);
        QCOMPARE(line.first().at(1).toInt(), 36);
        QCOMPARE(selection.module(), QStringLiteral("model.layers.*.self_attn.k_proj"));
    }

    void trainingChecksGradientsToo() {
        PlanWorkbench workbench;
        Selection selection;
        FindingsView view(&workbench, &selection);
        QVERIFY(openTiny(workbench));
        const QString text = QStringLiteral("tp_plan:\n  model.layers.*.self_attn.q_norm: replicate\n");
        workbench.setPlanText(text, {});
        QVERIFY(analysed(workbench));
        QCOMPARE(workbench.analysis()->lint.outcome, Outcome::Ok);
        view.setTraining(true);
        QVERIFY(analysed(workbench));
        QCOMPARE(workbench.analysis()->lint.outcome, Outcome::WrongGradients);
    }
};

QTEST_MAIN(FindingsTest)
#include "findingstest.moc"
