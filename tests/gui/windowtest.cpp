// SPDX-License-Identifier: GPL-3.0-or-later
#include <QComboBox>
#include <QFile>
#include <QLineEdit>
#include <QListWidget>
#include <QMessageBox>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTimer>

#include "app/gui/mainwindow.h"
#include "app/gui/outcomebar.h"
#include "editor/planeditor.h"
#include "models/findingsmodel.h"
#include "models/moduletreemodel.h"
#include "views/exportdialog.h"
#include "views/findingsview.h"
#include "views/modelview.h"
#include "views/planview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

namespace {

QByteArray contentOf(const QString &path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void write(const QString &path, const QByteArray &bytes) {
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(bytes);
}

QModelIndex indexOf(const QTreeView &tree, const QString &module) {
    const QModelIndexList found =
        tree.model()->match(tree.model()->index(0, 0), ModuleTreeModel::ModuleNameRole, module, 1,
                            Qt::MatchExactly | Qt::MatchRecursive);
    return found.value(0);
}

// Answers the next question a window asks.
void answer(QMessageBox::StandardButton button) {
    QTimer::singleShot(20, [button] {
        if (auto *box = qobject_cast<QMessageBox *>(QApplication::activeModalWidget()))
            box->button(button)->click();
        else
            answer(button);
    });
}

} // namespace

class WindowTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { QCoreApplication::setOrganizationName(QStringLiteral("TPScopeTest")); }

    void theThreeWaysShowAResult() {
        MainWindow window;
        window.show();
        QVERIFY(window.startPage().isVisible());
        window.openExample(StartPage::Way::CheckPlan);
        QVERIFY(analysed(window.workbench()));
        QVERIFY(window.planView().isVisible());
        QCOMPARE(window.workbench().analysis()->lint.outcome, Outcome::Ok);
        QVERIFY(window.findChild<OutcomeBar *>()->text().contains(QLatin1String("ok")));

        window.openExample(StartPage::Way::WrongGradients);
        QTRY_VERIFY_WITH_TIMEOUT(window.workbench().analysisIsCurrent() &&
                                     window.workbench().analysis()->lint.outcome == Outcome::WrongGradients,
                                 patienceMs);
        QVERIFY(window.findings().model().rowCount() > 0);

        QSignalSpy loaded(&window, &MainWindow::recordingLoaded);
        window.openExample(StartPage::Way::SlowDecode);
        QVERIFY(loaded.count() > 0 || loaded.wait(patienceMs));
        QVERIFY(window.store().currentComparison());
    }

    void savesAtomicallyAndKnowsWhatIsNotSaved() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("mine.yaml"));
        write(path, QByteArray("\xEF\xBB\xBF") + rightPlan);
        MainWindow window;
        window.openWith({}, path);
        QVERIFY(analysed(window.workbench()));
        QVERIFY(window.windowTitle().startsWith(QLatin1String("mine.yaml[*]")));
        QVERIFY(!window.isWindowModified());
        QVERIFY(window.planView().setStyle(QStringLiteral("lm_head"), QStringLiteral("colwise_gather_output")));
        QVERIFY(window.isWindowModified());
        window.action(QStringLiteral("save"))->trigger();
        QVERIFY(!window.isWindowModified());
        QCOMPARE(contentOf(path), QByteArray("\xEF\xBB\xBF") + rightPlan + "  lm_head: colwise_gather_output\n");
        window.action(QStringLiteral("undo"))->trigger();
        QVERIFY(window.isWindowModified());
    }

    void asksBeforeEditsAreLost() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("mine.yaml"));
        write(path, rightPlan);
        MainWindow window;
        window.show();
        window.openWith({}, path);
        QVERIFY(analysed(window.workbench()));
        window.planView().setStyle(QStringLiteral("lm_head"), QStringLiteral("colwise_gather_output"));
        answer(QMessageBox::Cancel);
        QVERIFY(!window.close());
        QVERIFY(window.isVisible());
        answer(QMessageBox::Discard);
        QVERIFY(window.close());
        QCOMPARE(contentOf(path), QByteArray(rightPlan));
    }

    void noticesWhatAnotherProgramWrites() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("mine.yaml"));
        write(path, rightPlan);
        MainWindow window;
        window.openWith({}, path);
        QVERIFY(analysed(window.workbench()));
        const QByteArray theirs = QByteArray(rightPlan) + "# theirs\n";
        write(path, theirs);
        QTRY_COMPARE_WITH_TIMEOUT(window.planView().editor().planText(), theirs, patienceMs);
        QVERIFY(!window.isWindowModified());
        QVERIFY(!window.planView().message().isEmpty());

        window.planView().setStyle(QStringLiteral("lm_head"), QStringLiteral("colwise_gather_output"));
        const QByteArray mine = window.planView().editor().planText();
        write(path, rightPlan);
        QTRY_VERIFY_WITH_TIMEOUT(window.planView().message().contains(QLatin1String("not saved")), patienceMs);
        QCOMPARE(window.planView().editor().planText(), mine);
    }

    void exportsEachDocument() {
        MainWindow window;
        window.openExample(StartPage::Way::CheckPlan);
        QVERIFY(analysed(window.workbench()));
        QTemporaryDir folder;
        ExportDialog dialog(window.workbench().analysis(), nullptr, QStringLiteral("qwen3-tiny"),
                            QStringLiteral("plan"), {});
        for (const char *id : {"yaml", "json", "python", "markdown", "html"}) {
            dialog.choose(QLatin1String(id));
            const QString path = folder.filePath(QLatin1String(id));
            QCOMPARE(dialog.writeTo(path), QString());
            QVERIFY2(contentOf(path).contains("proj"), id);
        }
        QVERIFY(!dialog.writeTo(QStringLiteral("/nowhere/x")).isEmpty());
    }

    void exportsAPictureOfEachPlot() {
        MainWindow window;
        window.show();
        const auto openDialog = [&window]() -> ExportDialog * {
            window.action(QStringLiteral("export"))->trigger();
            return window.findChild<ExportDialog *>();
        };
        const auto whichAreThere = [](ExportDialog &dialog) {
            QStringList titles;
            const auto *list = dialog.findChild<QListWidget *>();
            for (int row = 0; row < list->count(); ++row) {
                const QString text = list->item(row)->text();
                if (text.contains(QLatin1String("PNG")) && list->item(row)->flags().testFlag(Qt::ItemIsEnabled))
                    titles << text.section(QLatin1String(": "), 1).section(QLatin1String(" ("), 0, 0);
            }
            return titles;
        };
        window.openExample(StartPage::Way::CheckPlan);
        QVERIFY(analysed(window.workbench()));
        ExportDialog *dialog = openDialog();
        QCOMPARE(whichAreThere(*dialog), QStringList{QStringLiteral("Hooks & graph")});
        delete dialog;

        QSignalSpy loaded(&window, &MainWindow::recordingLoaded);
        window.openExample(StartPage::Way::SlowDecode);
        QVERIFY(loaded.wait(patienceMs));
        QVERIFY(analysed(window.workbench()));
        dialog = openDialog();
        const QStringList all = whichAreThere(*dialog);
        QCOMPARE(all.size(), 4);
        QTemporaryDir folder;
        for (const QString &title : all) {
            const QString path = folder.filePath(title + QStringLiteral(".png"));
            dialog->choosePicture(title);
            QCOMPARE(dialog->writeTo(path), QString());
            QVERIFY2(QImage(path).width() > 800, qPrintable(title));
        }
    }

    void runsFromTheToolBar() {
        MainWindow window;
        window.show();
        window.openExample(StartPage::Way::CheckPlan);
        QVERIFY(analysed(window.workbench()));
        window.runs().setBackend(Backend::Simulated);
        QVERIFY(!window.action(QStringLiteral("stop"))->isEnabled());
        window.action(QStringLiteral("run"))->trigger();
        QVERIFY(window.action(QStringLiteral("stop"))->isEnabled());
        QVERIFY(!window.action(QStringLiteral("run"))->isEnabled());
        QTRY_VERIFY_WITH_TIMEOUT(!window.runs().isRunning(), patienceMs);
        QCOMPARE(window.store().entries().back().state, QStringLiteral("done"));
        QVERIFY(window.action(QStringLiteral("run"))->isEnabled());
    }

    void aStyleChosenInTheTreeIsOneEditOfTheText() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("mine.yaml"));
        write(path, rightPlan);
        MainWindow window;
        window.show();
        window.openWith({}, path);
        QVERIFY(analysed(window.workbench()));
        QCOMPARE(window.workbench().analysis()->lint.outcome, Outcome::Ok);
        QTreeView &tree = window.modelView().tree();
        const QModelIndex row = indexOf(tree, QStringLiteral("model.layers.*.self_attn.o_proj"));
        const QModelIndex style = row.siblingAtColumn(ModuleTreeModel::StyleColumn);
        QCOMPARE(style.data().toString(), QStringLiteral("rowwise"));

        // A person's way: double-click, then choose in the list that opens.
        tree.scrollTo(style);
        QTest::mouseClick(tree.viewport(), Qt::LeftButton, {}, tree.visualRect(style).center());
        QTest::mouseDClick(tree.viewport(), Qt::LeftButton, {}, tree.visualRect(style).center());
        auto *combo = tree.findChild<QComboBox *>();
        QVERIFY(combo);
        QCOMPARE(combo->currentText(), QStringLiteral("rowwise"));
        QTRY_VERIFY(combo->view()->isVisible());
        combo->view()->setCurrentIndex(combo->model()->index(combo->findText(QStringLiteral("colwise")), 0));
        QTest::keyClick(combo->view(), Qt::Key_Return);

        QCOMPARE(window.planView().editor().planText(),
                 QByteArray(rightPlan).replace("o_proj: rowwise", "o_proj: colwise"));
        QVERIFY(window.isWindowModified());
        QVERIFY(analysed(window.workbench()));
        QVERIFY(window.workbench().analysis()->lint.outcome != Outcome::Ok);
        QCOMPARE(style.data().toString(), QStringLiteral("colwise"));
        QTRY_VERIFY(!tree.findChild<QComboBox *>());

        window.action(QStringLiteral("undo"))->trigger();
        QCOMPARE(window.planView().editor().planText(), QByteArray(rightPlan));
        QVERIFY(!window.isWindowModified());
        QTRY_COMPARE_WITH_TIMEOUT(window.workbench().analysis()->lint.outcome, Outcome::Ok, patienceMs);
    }

    void allEditsAreOneHistory() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("mine.yaml"));
        write(path, wrongPlan());
        MainWindow window;
        window.show();
        window.openWith({}, path);
        QVERIFY(analysed(window.workbench()));
        PlanEditor &editor = window.planView().editor();
        QList<QByteArray> texts{editor.planText()};
        window.planView().nextFinding(1);
        window.action(QStringLiteral("fix"))->trigger();
        texts << editor.planText();
        QVERIFY(window.planView().setStyle(QStringLiteral("lm_head"), QStringLiteral("colwise_gather_output")));
        texts << editor.planText();
        editor.goTo(1, 1);
        QTest::keyClicks(&editor, QStringLiteral("#"));
        texts << editor.planText();
        QVERIFY(window.savePlan());
        write(path, rightPlan); // another program
        QTRY_COMPARE_WITH_TIMEOUT(editor.planText(), QByteArray(rightPlan), patienceMs);
        for (auto text = texts.crbegin(); text != texts.crend(); ++text) {
            window.action(QStringLiteral("undo"))->trigger();
            QCOMPARE(editor.planText(), *text);
        }
        for (const QByteArray &text : texts.mid(1)) {
            window.action(QStringLiteral("redo"))->trigger();
            QCOMPARE(editor.planText(), text);
        }
    }

    void aTabThatIsChosenTakesTheKeys() {
        MainWindow window;
        window.show();
        window.openExample(StartPage::Way::CheckPlan);
        QVERIFY(analysed(window.workbench()));
        window.activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&window));
        window.modelView().search().setFocus();
        for (int round = 0; round < 2; ++round) { // the second time the tab is shown already
            QTest::keyClick(&window, Qt::Key_1, Qt::ControlModifier);
            QVERIFY(window.planView().editor().hasFocus());
            window.modelView().search().setFocus();
        }
        auto *tabs = window.findChild<QTabWidget *>();
        for (const Qt::Key key : {Qt::Key_2, Qt::Key_3, Qt::Key_4, Qt::Key_5}) {
            QTest::keyClick(&window, key, Qt::ControlModifier);
            QCOMPARE(tabs->currentIndex(), key - Qt::Key_1);
            QWidget *focus = QApplication::focusWidget();
            QVERIFY(focus == tabs->currentWidget() || tabs->currentWidget()->isAncestorOf(focus));
        }
    }

    void aPlanThatIsNotThereIsSaid() {
        MainWindow window;
        QSignalSpy problem(&window, &MainWindow::problem);
        window.openPlan(QStringLiteral("/nowhere/plan.yaml"));
        QCOMPARE(problem.count(), 1);
    }
};

QTEST_MAIN(WindowTest)
#include "windowtest.moc"
