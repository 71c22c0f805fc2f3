// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/screenshots.h"

#include <QApplication>
#include <QDir>
#include <QEventLoop>
#include <QTimer>

#include <cstdio>
#include <functional>

#include "app/gui/mainwindow.h"
#include "editor/planeditor.h"
#include "models/recording.h"
#include "views/findingsview.h"
#include "views/planview.h"

namespace tpscope {
namespace {

constexpr int giveUpMs = 60000;

// Runs events until the condition holds; it is looked at after each event: nothing is waited for longer than it takes.
bool waitUntil(const std::function<bool()> &done) {
    QTimer limit;
    limit.setSingleShot(true);
    limit.start(giveUpMs);
    while (!done()) {
        if (!limit.isActive())
            return false;
        QApplication::processEvents(QEventLoop::WaitForMoreEvents, 50);
    }
    return true;
}

// What is queued because of what was just shown: layouts, replots, annotations.
void settle() {
    for (int i = 0; i < 5; ++i) {
        QApplication::sendPostedEvents();
        QApplication::processEvents(QEventLoop::AllEvents, 50);
    }
    bool rewrapped = false;
    QTimer::singleShot(150, [&rewrapped] { rewrapped = true; });
    waitUntil([&rewrapped] { return rewrapped; });
}

class Photographer {
public:
    Photographer(const QString &folder, ThemeKind theme)
        : m_folder(folder),
          m_suffix(theme == ThemeKind::Dark ? QStringLiteral("-dark.png") : QStringLiteral("-light.png")) {
        m_window.setTheme(theme);
        m_window.resize(1280, 720);
        m_window.show();
    }

    bool all() {
        settle();
        const bool start = take("start");
        return open(StartPage::Way::CheckPlan) && take("plan") && findings() && comparison() &&
               shot(MainWindow::Tab::Graph, "graph") && shot(MainWindow::Tab::Timeline, "timeline") &&
               shot(MainWindow::Tab::Latency, "latency") && shot(MainWindow::Tab::Compare, "compare") && start;
    }

private:
    bool analysed() {
        return waitUntil(
            [this] { return m_window.workbench().workspace() && m_window.workbench().analysisIsCurrent(); });
    }
    bool open(StartPage::Way way) {
        bool opened = false;
        const auto connection =
            QObject::connect(&m_window.workbench(), &PlanWorkbench::modelOpened, [&opened] { opened = true; });
        m_window.openExample(way);
        const bool there = waitUntil([&opened] { return opened; }) && analysed();
        QObject::disconnect(connection);
        return there || complain("the example could not be opened");
    }
    bool findings() {
        if (!open(StartPage::Way::WrongGradients))
            return false;
        m_window.planView().nextFinding(1);
        return take("findings");
    }
    // The recording that ships, else a simulated comparison by the program beside this one.
    bool comparison() {
        bool ended = false;
        const auto recorded = QObject::connect(&m_window, &MainWindow::recordingLoaded, [&ended] { ended = true; });
        const auto missing = QObject::connect(&m_window, &MainWindow::problem, [&ended] { ended = true; });
        const bool opened = open(StartPage::Way::SlowDecode) && waitUntil([&ended] { return ended; });
        QObject::disconnect(recorded);
        QObject::disconnect(missing);
        if (!opened)
            return false;
        if (!m_window.store().currentComparison()) {
            m_window.runs().setBackend(Backend::Simulated);
            m_window.runs().compareHooks();
            if (!waitUntil([this] { return !m_window.runs().isRunning(); }))
                return complain("the simulated comparison did not end");
        }
        return m_window.store().currentComparison() || complain("there is no comparison to show");
    }
    bool shot(MainWindow::Tab tab, const char *name) {
        m_window.showTab(tab);
        return take(name);
    }
    bool take(const char *name) {
        settle();
        const QString file = m_folder + QLatin1Char('/') + QLatin1String(name) + m_suffix;
        return m_window.grab().save(file) || complain(qPrintable(file));
    }
    static bool complain(const char *what) {
        std::fprintf(stderr, "tpscope-gui: screenshots: %s\n", what);
        return false;
    }

    MainWindow m_window;
    QString m_folder;
    QString m_suffix;
};

} // namespace

int renderScreenshots(const QString &folder) {
    if (!QDir().mkpath(folder)) {
        std::fprintf(stderr, "tpscope-gui: %s cannot be made\n", qPrintable(folder));
        return 2;
    }
    for (const ThemeKind theme : {ThemeKind::Light, ThemeKind::Dark}) {
        Theme::apply(theme);
        Photographer photographer(folder, theme);
        if (!photographer.all())
            return 3;
    }
    return 0;
}

} // namespace tpscope
