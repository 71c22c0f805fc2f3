// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/mainwindow.h"

#include <QCloseEvent>
#include <QComboBox>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QLabel>
#include <QMessageBox>
#include <QMimeData>
#include <QScrollArea>
#include <QSettings>
#include <QSpinBox>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabBar>
#include <QTabWidget>
#include <QToolBar>

#include "app/gui/outcomebar.h"
#include "editor/planeditor.h"
#include "model/modelsource.h"
#include "style/icons.h"
#include "views/compareview.h"
#include "views/detailsview.h"
#include "views/findingsview.h"
#include "views/graphview.h"
#include "views/latencyview.h"
#include "views/logview.h"
#include "views/modelview.h"
#include "views/planview.h"
#include "views/runsview.h"
#include "views/startpagecard.h"
#include "views/timelineview.h"

namespace tpscope {
namespace {

constexpr int messageMs = 8000;

QStringList bundledNames() {
    QStringList names;
    for (const std::string &name : bundledModelNames())
        names << QString::fromStdString(name);
    return names;
}

} // namespace

MainWindow::MainWindow(QWidget *parent) : QMainWindow(parent), m_runs(m_workbench, m_store) {
    setObjectName(QStringLiteral("MainWindow"));
    setWindowIcon(themedIcon(QStringLiteral("tpscope")));
    setDockOptions(AnimatedDocks | AllowTabbedDocks | AllowNestedDocks);
    setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
    setAcceptDrops(true);
    buildCentre();
    buildDocks();
    buildActions();
    buildMenus();
    buildToolBar();
    m_outcome = new OutcomeBar;
    statusBar()->addPermanentWidget(m_outcome);
    connectParts();
    connectRuns();
    resize(1280, 720);
    if (const QByteArray geometry = QSettings().value(QStringLiteral("geometry")).toByteArray(); !geometry.isEmpty())
        restoreGeometry(geometry);
    refreshTheme();
    showStart();
    loadRecordedVerdict();
}

MainWindow::~MainWindow() = default;

void MainWindow::buildCentre() {
    m_start = new StartPage;
    m_start->setBundled(bundledNames());
    m_start->setRecent(QSettings().value(QStringLiteral("recent")).toStringList());
    m_tabs = new QTabWidget;
    m_tabs->setDocumentMode(true);
    m_plan = new PlanView(&m_workbench, &m_selection);
    m_tabs->addTab(m_plan, tr("Plan"));
    const auto addPlot = [this](auto *view, const QString &title) {
        m_tabs->addTab(view, title);
        m_plots.push_back({QString(title).replace(QLatin1String("&&"), QLatin1String("&")),
                           [view] { return view->hasContent(); },
                           [view](const QString &file) { return view->savePng(file); }});
    };
    addPlot(new GraphView(&m_workbench, &m_selection, &m_store), tr("Hooks && graph"));
    addPlot(new TimelineView(&m_store, &m_selection), tr("Timeline"));
    addPlot(new LatencyView(&m_store), tr("Latency"));
    addPlot(new CompareView(&m_store, &m_workbench), tr("Compare"));
    m_centre = new QStackedWidget;
    auto *scroll = new QScrollArea; // a small window scrolls the start page
    scroll->setWidget(m_start);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    m_centre->addWidget(scroll);
    m_centre->setMinimumSize(320, 200); // else a page that is not shown decides how small the window can be
    m_centre->addWidget(m_tabs);
    setCentralWidget(m_centre);
    connect(m_tabs, &QTabWidget::currentChanged, this, [this](int index) {
        if (m_centre->currentWidget() != m_tabs)
            return;
        arrange(static_cast<Tab>(index));
        // Keys go to what is shown, unless somebody walks along the tabs with the arrow keys.
        if (!m_tabs->tabBar()->hasFocus())
            m_tabs->currentWidget()->setFocus();
    });
}

void MainWindow::buildDocks() {
    const auto dock = [this](const QString &name, const QString &title, QWidget *content, Qt::DockWidgetArea area) {
        auto *widget = new QDockWidget(title);
        widget->setObjectName(name);
        widget->setWidget(content);
        addDockWidget(area, widget);
        return widget;
    };
    m_model = new ModelView(&m_workbench, &m_selection);
    m_findings = new FindingsView(&m_workbench, &m_selection);
    m_runsView = new RunsView(&m_store);
    m_log = new LogView;
    m_details = new DetailsView(&m_workbench, &m_selection);
    m_modelDock = dock(QStringLiteral("model"), tr("Model"), m_model, Qt::LeftDockWidgetArea);
    m_findingsDock = dock(QStringLiteral("findings"), tr("Findings"), m_findings, Qt::BottomDockWidgetArea);
    m_runsDock = dock(QStringLiteral("runs"), tr("Runs"), m_runsView, Qt::BottomDockWidgetArea);
    m_logDock = dock(QStringLiteral("log"), tr("Log"), m_log, Qt::BottomDockWidgetArea);
    m_detailsDock = dock(QStringLiteral("details"), tr("Details"), m_details, Qt::RightDockWidgetArea);
    tabifyDockWidget(m_findingsDock, m_runsDock);
    tabifyDockWidget(m_runsDock, m_logDock);
    m_findingsDock->raise();
}

void MainWindow::connectParts() {
    connect(&m_workbench, &PlanWorkbench::modelOpened, this, &MainWindow::onModelOpened);
    connect(&m_workbench, &PlanWorkbench::analysisChanged, this, [this](const auto &analysis) {
        m_outcome->show(analysis.get());
        followTpSize(*analysis);
        updateActions();
    });
    connect(&m_workbench, &PlanWorkbench::settingsChanged, this, [this] {
        m_tpBox->setValue(m_workbench.tp());
        m_hooksBox->setCurrentIndex(m_hooksBox->findData(static_cast<int>(m_workbench.hooks())));
    });
    connect(&m_workbench, &PlanWorkbench::failed, this, [this](const QString &text) {
        m_opening = false;
        m_modelBox->setCurrentText(m_workbench.modelArgument());
        complain(text);
    });
    connect(m_model, &ModelView::styleChosen, m_plan, &PlanView::setStyle);
    connect(m_plan, &PlanView::hinted, this, [this](const QString &text) { say(text, false); });
    connect(m_findings, &FindingsView::titleChanged, m_findingsDock, &QDockWidget::setWindowTitle);
    connect(m_findings, &FindingsView::fixChosen, m_plan, &PlanView::applyFixOf);
    connect(&m_plan->editor(), &QsciScintilla::modificationChanged, this, [this] { updateTitle(); });
    connect(&m_file, &PlanFile::changedOnDisk, this, &MainWindow::onChangedOnDisk);
    connect(&m_file, &PlanFile::removedOnDisk, this, [this] {
        m_plan->showMessage(tr("%1 is no longer on disk. Save writes it again.").arg(m_file.displayName()), {});
    });
    connect(m_start, &StartPage::wayChosen, this, &MainWindow::openExample);
    connect(m_start, &StartPage::recentChosen, this, [this](const QString &file) { openPath(file); });
    connect(m_start, &StartPage::fileDropped, this, &MainWindow::openPath);
    connect(m_start, &StartPage::modelChosen, this, &MainWindow::openModel);
    connect(m_start, &StartPage::openPlanRequested, this, &MainWindow::openPlanDialog);
    connect(m_start, &StartPage::openModelRequested, this, &MainWindow::openModelDialog);
}

// A size written into the text is looked at; one chosen in the tool bar afterwards stays until the text says another.
void MainWindow::followTpSize(const PlanAnalysis &analysis) {
    if (analysis.unreadable || !analysis.choice.document || analysis.choice.document->tpSize == m_writtenTp)
        return;
    m_writtenTp = analysis.choice.document->tpSize;
    if (m_writtenTp)
        m_workbench.setTp(*m_writtenTp);
}

void MainWindow::connectRuns() {
    connect(&m_runs, &RunController::runningChanged, this, [this](bool running) {
        if (running && m_centre->currentWidget() == m_tabs) {
            m_runsDock->show();
            m_runsDock->raise();
        }
        updateActions();
    });
    connect(&m_runs, &RunController::said, this, [this](const QString &text) { say(text); });
    connect(&m_runs, &RunController::progressed, this, [this](const QString &text) { say(text, false); });
    connect(&m_runs, &RunController::refused, this, [this](const QString &text) { say(text); });
    connect(&m_store, &RunStore::currentChanged, this, &MainWindow::updateActions);
    connect(m_runsView, &RunsView::stopRequested, &m_runs, &RunController::stop);
}

// Each tab has a layout of its own: the plan wants its docks, a plot wants room.
void MainWindow::arrange(Tab tab) {
    if (m_shownTab == static_cast<int>(tab))
        return;
    if (m_shownTab >= 0)
        m_layouts[m_shownTab] = saveState();
    m_shownTab = static_cast<int>(tab);
    if (const auto kept = m_layouts.constFind(m_shownTab); kept != m_layouts.constEnd()) {
        restoreState(*kept);
        return;
    }
    const bool plan = tab == Tab::Plan;
    m_modelDock->setVisible(plan);
    for (QDockWidget *dock : {m_findingsDock, m_runsDock, m_logDock})
        dock->setVisible(plan);
    m_detailsDock->setVisible(plan || tab == Tab::Graph);
    if (plan)
        m_findingsDock->raise();
    resizeDocks({m_modelDock, m_detailsDock}, {378, 206}, Qt::Horizontal);
    resizeDocks({m_findingsDock}, {176}, Qt::Vertical);
}

void MainWindow::showStart() {
    if (m_shownTab >= 0)
        m_layouts[m_shownTab] = saveState();
    m_shownTab = -1;
    m_centre->setCurrentIndex(0);
    for (QDockWidget *dock : {m_modelDock, m_findingsDock, m_runsDock, m_logDock, m_detailsDock})
        dock->hide();
    m_bar->hide();
    statusBar()->hide();
    updateTitle();
}

void MainWindow::leaveStart() {
    if (m_centre->currentWidget() == m_tabs)
        return;
    m_centre->setCurrentWidget(m_tabs);
    m_bar->show();
    statusBar()->show();
    arrange(static_cast<Tab>(m_tabs->currentIndex()));
    m_tabs->currentWidget()->setFocus();
    updateTitle();
}

void MainWindow::showTab(Tab tab) {
    m_tabs->setCurrentIndex(static_cast<int>(tab));
    leaveStart();
    m_tabs->currentWidget()->setFocus();
}

void MainWindow::updateTitle() {
    if (m_centre->currentWidget() != m_tabs) {
        setWindowModified(false);
        setWindowTitle(tr("TPScope"));
        return;
    }
    const QString model = m_workbench.modelArgument();
    setWindowTitle(model.isEmpty() ? tr("%1[*] \u2013 TPScope").arg(m_file.displayName())
                                   : tr("%1[*] \u2013 %2 \u2013 TPScope").arg(m_file.displayName(), model));
    setWindowModified(m_plan->editor().isModified());
    updateActions();
}

void MainWindow::say(const QString &text, bool log) {
    statusBar()->showMessage(text.section(QLatin1Char('\n'), 0, 0), messageMs);
    if (log)
        m_log->say(text);
}

// What the user asked for did not happen: said where they look, without a dialog that blocks.
void MainWindow::complain(const QString &text) {
    say(text);
    emit problem(text);
    if (m_centre->currentWidget() == m_tabs) {
        m_tabs->setCurrentWidget(m_plan);
        m_plan->showMessage(text, {{tr("OK"), {}}});
        return;
    }
    auto *box = new QMessageBox(QMessageBox::Warning, tr("TPScope"), text, QMessageBox::Ok, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->open();
}

void MainWindow::setTheme(ThemeKind kind) {
    Theme::apply(kind);
    refreshTheme();
}

void MainWindow::refreshTheme() {
    for (QAction *action : std::as_const(m_actions))
        if (const QString icon = action->property("iconName").toString(); !icon.isEmpty())
            action->setIcon(themedIcon(icon));
    m_start->refreshTheme();
    m_plan->refreshTheme();
    m_model->refreshTheme();
    m_details->refresh();
    m_outcome->show(m_workbench.analysis().get());
}

void MainWindow::closeEvent(QCloseEvent *event) {
    if (!mayDiscard()) {
        event->ignore();
        return;
    }
    m_runs.stop();
    QSettings().setValue(QStringLiteral("geometry"), saveGeometry());
    event->accept();
}

void MainWindow::dragEnterEvent(QDragEnterEvent *event) {
    if (!droppedFile(*event->mimeData()).isEmpty())
        event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent *event) {
    event->acceptProposedAction();
    openPath(droppedFile(*event->mimeData()));
}

} // namespace tpscope
