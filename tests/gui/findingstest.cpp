// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractItemModelTester>
#include <QTableView>
#include <QTextDocument>

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

    void aLongFindingIsCutInItsRowAndWholeBesideIt() {
        FindingsView view(&m_workbench, &m_selection);
        view.resize(900, 300);
        view.show();
        QVERIFY(openTiny(m_workbench));
        m_workbench.setPlanText(QString::fromUtf8(wrongPlan()), {});
        QVERIFY(analysed(m_workbench));
        const QModelIndex message = view.model().index(0, FindingsModel::MessageColumn);
        QCOMPARE(message.siblingAtColumn(FindingsModel::CodeColumn).data().toString(), QStringLiteral("TP001"));
        QTextDocument tip;
        tip.setHtml(message.data(Qt::ToolTipRole).toString());
        QCOMPARE(tip.toPlainText(), message.data().toString());
        QTableView &table = view.table();
        const int line = table.fontMetrics().lineSpacing();
        const QSize whole = table.fontMetrics()
                                .boundingRect(QRect(0, 0, table.columnWidth(message.column()), 10000),
                                              Qt::TextWordWrap, message.data().toString())
                                .size();
        QVERIFY2(whole.height() > 3 * line, "the text is short: this test tells nothing");
        QVERIFY2(table.rowHeight(0) < 4 * line, qPrintable(QString::number(table.rowHeight(0))));
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

private:
    PlanWorkbench m_workbench;
    Selection m_selection;
};

QTEST_MAIN(FindingsTest)
#include "findingstest.moc"
