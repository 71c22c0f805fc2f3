// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractItemModelTester>
#include <QLineEdit>

#include "models/moduletreemodel.h"
#include "models/selection.h"
#include "views/modelview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

class ModelTreeTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { QVERIFY(openTiny(m_workbench)); }

    void keepsTheModelContract() {
        ModuleTreeModel model;
        const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setAnalysis(m_workbench.analysis());
        model.setRank(1);
        model.setAnalysis(m_workbench.analysis());
        model.setAnalysis(nullptr);
    }

    void foldsIdenticalLayers() {
        ModuleTreeModel model;
        model.setAnalysis(m_workbench.analysis());
        const QModelIndex layers = model.indexOfModule(QStringLiteral("model.layers"));
        QCOMPARE(model.rowCount(layers), 1);
        const QModelIndex fold = model.index(0, 0, layers);
        QCOMPARE(fold.data().toString(), QStringLiteral("0\u20131, \u00D72"));
        QCOMPARE(fold.data(ModuleTreeModel::FoldCountRole).toInt(), 2);
        QCOMPARE(model.indexOfModule(QStringLiteral("model.layers.1.mlp")),
                 model.indexOfModule(QStringLiteral("model.layers.*.mlp")));
    }

    void bytesAddUpToTheRank() {
        ModuleTreeModel model;
        model.setAnalysis(m_workbench.analysis());
        qint64 sum = 0;
        for (int row = 0; row < model.rowCount(); ++row)
            sum += model.index(row, ModuleTreeModel::BytesColumn).data(ModuleTreeModel::SortRole).toLongLong();
        QCOMPARE(sum, qint64(m_workbench.analysis()->lint.bytesPerRank.front()));
    }

    void aNewAnalysisOfTheSameModulesKeepsTheRows() {
        ModuleTreeModel model;
        model.setAnalysis(m_workbench.analysis());
        const QPersistentModelIndex kept(model.indexOfModule(QStringLiteral("model.layers.*.self_attn.q_proj")));
        QSignalSpy reset(&model, &QAbstractItemModel::modelReset);
        model.setAnalysis(m_workbench.analysis());
        QCOMPARE(reset.count(), 0);
        QVERIFY(kept.isValid());
    }

    void aChosenStyleIsAskedForAndChangesNothing() {
        ModuleTreeModel model;
        model.setAnalysis(m_workbench.analysis());
        QSignalSpy chosen(&model, &ModuleTreeModel::styleChosen);
        const QModelIndex row = model.indexOfModule(QStringLiteral("model.layers.*.self_attn.q_proj"));
        const QModelIndex style = row.siblingAtColumn(ModuleTreeModel::StyleColumn);
        QVERIFY(style.flags() & Qt::ItemIsEditable);
        QVERIFY(model.setData(style, QStringLiteral("rowwise")));
        QCOMPARE(chosen.first().at(0).toString(), QStringLiteral("model.layers.*.self_attn.q_proj"));
        QCOMPARE(chosen.first().at(1).toString(), QStringLiteral("rowwise"));
        QCOMPARE(style.data().toString(), QStringLiteral("colwise"));
    }

    void searchLeavesWhatMatches() {
        Selection selection;
        PlanWorkbench workbench;
        ModelView view(&workbench, &selection);
        QVERIFY(openTiny(workbench));
        view.search().setText(QStringLiteral("q_norm"));
        const QAbstractItemModel *shown = view.tree().model();
        QModelIndex deepest = shown->index(0, 0);
        while (shown->rowCount(deepest) > 0) {
            QCOMPARE(shown->rowCount(deepest), 1);
            deepest = shown->index(0, 0, deepest);
        }
        QCOMPARE(deepest.data(ModuleTreeModel::ModuleNameRole).toString(),
                 QStringLiteral("model.layers.*.self_attn.q_norm"));
    }

private:
    PlanWorkbench m_workbench;
};

QTEST_MAIN(ModelTreeTest)
#include "modeltreetest.moc"
