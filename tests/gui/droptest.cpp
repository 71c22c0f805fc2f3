// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDragEnterEvent>
#include <QFile>
#include <QMimeData>
#include <QTabWidget>
#include <QTemporaryDir>

#include "app/gui/mainwindow.h"
#include "editor/planeditor.h"
#include "model/modelsource.h"
#include "models/findingsmodel.h"
#include "models/recording.h"
#include "views/findingsview.h"
#include "views/planview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

namespace {

const char planWithoutSync[] = "tp_plan:\n  model.layers.*.self_attn.q_norm: replicate\n";

// As a file manager does it: hold the file over a widget, let go. false: nobody there takes it.
bool drop(QWidget &target, const QMimeData &data) {
    const QPoint middle = target.rect().center();
    QDragEnterEvent enter(middle, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&target, &enter);
    if (!enter.isAccepted())
        return false;
    QDropEvent let(middle, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&target, &let);
    return let.isAccepted();
}

bool dropFile(QWidget &target, const QString &path) {
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(path)});
    return drop(target, data);
}

MainWindow::Tab shownTab(const MainWindow &window) {
    return static_cast<MainWindow::Tab>(window.findChild<QTabWidget *>()->currentIndex());
}

bool checked(MainWindow &window) {
    return QTest::qWaitFor([&] { return window.planView().isVisible() || !window.startPage().isVisible(); },
                           patienceMs) &&
           analysed(window.workbench());
}

} // namespace

class DropTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        QCoreApplication::setOrganizationName(QStringLiteral("TPScopeTest"));
        const auto source = findModel("qwen3-tiny");
        QVERIFY(source);
        m_modelFolder = QString::fromStdString(source->folder.string());
        m_wrong = write("wrong.yaml", wrongPlan());
        m_noSync = write("no-sync.yaml", planWithoutSync);
        m_jsonPlan = write("plan.json", R"({"model_type": "qwen3", "tp_plan": {"lm_head": "colwise_gather_output"}})");
        m_comparison = m_folder.filePath(QStringLiteral("saved.json"));
        QVERIFY(QFile::copy(bundledRecordingPath(), m_comparison));
        m_config = m_folder.filePath(QStringLiteral("renamed.json"));
        QVERIFY(QFile::copy(m_modelFolder + QStringLiteral("/config.json"), m_config));
    }

    void init() {
        m_window = std::make_unique<MainWindow>();
        m_window->show();
    }
    void cleanup() { m_window.reset(); }

    void aPlanOnCheckAPlanIsChecked() {
        QVERIFY(dropFile(*m_window->startPage().card(StartPage::Way::CheckPlan), m_wrong));
        QVERIFY(checked(*m_window));
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Plan);
        QCOMPARE(m_window->planView().editor().planText(), wrongPlan());
        QTRY_VERIFY_WITH_TIMEOUT(m_window->findings().model().rowCount() > 0, patienceMs);
    }

    void aComparisonOnSlowDecodeIsShownWithItsModel() {
        QSignalSpy loaded(m_window.get(), &MainWindow::recordingLoaded);
        QVERIFY(dropFile(*m_window->startPage().card(StartPage::Way::SlowDecode), m_comparison));
        QVERIFY(loaded.wait(patienceMs));
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Compare);
        QVERIFY(m_window->store().currentComparison());
        QTRY_COMPARE_WITH_TIMEOUT(m_window->workbench().modelArgument(), QStringLiteral("qwen3-tiny"), patienceMs);
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Compare);
    }

    void aPlanOnSlowDecodeShowsWhereItsGraphsBreak() {
        QVERIFY(dropFile(*m_window->startPage().card(StartPage::Way::SlowDecode), m_noSync));
        QTRY_VERIFY_WITH_TIMEOUT(!m_window->startPage().isVisible(), patienceMs);
        QVERIFY(analysed(m_window->workbench()));
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Graph);
        QCOMPARE(m_window->planView().editor().planText(), QByteArray(planWithoutSync));
    }

    void aPlanOnWrongGradientsIsCheckedForTraining() {
        QVERIFY(dropFile(*m_window->startPage().card(StartPage::Way::WrongGradients), m_noSync));
        QTRY_VERIFY_WITH_TIMEOUT(!m_window->startPage().isVisible(), patienceMs);
        QVERIFY(analysed(m_window->workbench()));
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Plan);
        QCOMPARE(m_window->workbench().analysis()->lint.outcome, Outcome::WrongGradients);
    }

    void anythingOnTheWindowIsOpenedAsWhatItIs_data() {
        QTest::addColumn<bool>("onStart");
        QTest::newRow("start page") << true;
        QTest::newRow("plan editor") << false;
    }
    void anythingOnTheWindowIsOpenedAsWhatItIs() {
        QFETCH(const bool, onStart);
        if (!onStart) {
            m_window->openExample(StartPage::Way::CheckPlan);
            QVERIFY(analysed(m_window->workbench()));
        }
        const auto target = [&]() -> QWidget & {
            if (onStart)
                return m_window->startPage();
            return *m_window->planView().editor().viewport();
        };
        for (const QString &model : {m_config, m_modelFolder}) {
            QVERIFY(dropFile(target(), model));
            QTRY_COMPARE_WITH_TIMEOUT(m_window->workbench().modelArgument(), model, patienceMs);
            QVERIFY(analysed(m_window->workbench()));
            QVERIFY(m_window->planView().editor().planText().contains("q_proj: colwise"));
            if (onStart)
                m_window->showStart();
        }
        QVERIFY(dropFile(target(), m_jsonPlan));
        QTRY_VERIFY_WITH_TIMEOUT(m_window->file().path() == m_jsonPlan, patienceMs);
        QVERIFY(analysed(m_window->workbench()));
        QCOMPARE(m_window->workbench().analysis()->unreadable.has_value(), false);
        if (onStart)
            m_window->showStart();
        QSignalSpy loaded(m_window.get(), &MainWindow::recordingLoaded);
        QVERIFY(dropFile(target(), m_comparison));
        QVERIFY(loaded.wait(patienceMs));
        QCOMPARE(shownTab(*m_window), MainWindow::Tab::Compare);
        QCOMPARE(m_window->file().path(), m_jsonPlan); // what is edited stays
    }

    void wordsAreNotAFile() {
        QMimeData words;
        words.setText(QStringLiteral("tp_plan:"));
        QVERIFY(!drop(*m_window->startPage().card(StartPage::Way::CheckPlan), words));
        QMimeData remote;
        remote.setUrls({QUrl(QStringLiteral("https://example.org/plan.yaml"))});
        QVERIFY(!drop(m_window->startPage(), remote));
    }

    void whatIsNeitherIsSaid() {
        const QString broken = write("broken.json", "{\"before\": 1, \"after\": 2}");
        QSignalSpy problem(m_window.get(), &MainWindow::problem);
        QVERIFY(dropFile(m_window->startPage(), broken));
        QVERIFY(problem.wait(patienceMs));
        QVERIFY2(problem.first().first().toString().contains(QLatin1String("broken.json")),
                 qPrintable(problem.first().first().toString()));
        QVERIFY(m_window->startPage().isVisible());
    }

private:
    QString write(const char *name, const QByteArray &bytes) {
        QFile file(m_folder.filePath(QLatin1String(name)));
        return file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size() ? file.fileName() : QString();
    }

    QTemporaryDir m_folder;
    QString m_modelFolder;
    QString m_config;
    QString m_wrong;
    QString m_noSync;
    QString m_jsonPlan;
    QString m_comparison;
    std::unique_ptr<MainWindow> m_window;
};

QTEST_MAIN(DropTest)
#include "droptest.moc"
