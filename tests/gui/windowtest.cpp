// SPDX-License-Identifier: GPL-3.0-or-later
#include <QFile>
#include <QMessageBox>
#include <QTemporaryDir>
#include <QTimer>

#include "app/gui/mainwindow.h"
#include "app/gui/outcomebar.h"
#include "editor/planeditor.h"
#include "models/findingsmodel.h"
#include "views/exportdialog.h"
#include "views/findingsview.h"
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

    void aPlanThatIsNotThereIsSaid() {
        MainWindow window;
        QSignalSpy problem(&window, &MainWindow::problem);
        window.openPlan(QStringLiteral("/nowhere/plan.yaml"));
        QCOMPARE(problem.count(), 1);
    }
};

QTEST_MAIN(WindowTest)
#include "windowtest.moc"
