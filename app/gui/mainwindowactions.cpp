// SPDX-License-Identifier: GPL-3.0-or-later
// Menus and tool bar of MainWindow.
#include "app/gui/mainwindow.h"

#include <QActionGroup>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QSettings>
#include <QSpinBox>
#include <QTabWidget>
#include <QToolBar>
#include <QToolButton>

#include "editor/planeditor.h"
#include "model/modelsource.h"
#include "models/planexport.h"
#include "views/modelview.h"
#include "views/planview.h"

namespace tpscope {
namespace {

QString from(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

// Undo in a line being typed in is that line's matter.
bool inLineEdit(void (QLineEdit::*what)()) {
    auto *line = qobject_cast<QLineEdit *>(QApplication::focusWidget());
    if (line)
        (line->*what)();
    return line != nullptr;
}

} // namespace

QAction *MainWindow::add(const QString &name, const QString &icon, const QString &text, const QKeySequence &keys,
                         std::function<void()> run) {
    auto *action = new QAction(text, this);
    action->setObjectName(name);
    action->setShortcut(keys);
    action->setProperty("iconName", icon);
    if (!keys.isEmpty())
        action->setToolTip(QStringLiteral("%1 (%2)").arg(QString(text).remove(QLatin1Char('&')),
                                                         keys.toString(QKeySequence::NativeText)));
    connect(action, &QAction::triggered, this, [run = std::move(run)] { run(); });
    m_actions.insert(name, action);
    return action;
}

void MainWindow::buildActions() {
    buildFileActions();
    buildEditActions();
    using K = QKeySequence;
    add("run", "run", tr("&Run"), K(tr("F5")), [this] { m_runs.run(); });
    add("compare-hooks", "compare", tr("&Compare hooks"), K(tr("Ctrl+F5")), [this] { m_runs.compareHooks(); });
    add("compare-plan", {}, tr("Compare with another &plan\u2026"), {}, [this] {
        const QString filter = tr("Plans (*.yaml *.yml *.json)");
        const QString file = QFileDialog::getOpenFileName(this, tr("The plan before"), {}, filter);
        if (!file.isEmpty())
            m_runs.comparePlans(file);
    });
    add("stop", "stop", tr("&Stop"), K(tr("Shift+F5")), [this] { m_runs.stop(); });
    add("about", {}, tr("&About TPScope"), {}, [this] { about(); });
}

void MainWindow::buildFileActions() {
    using K = QKeySequence;
    add("start", {}, tr("&Start page"), {}, [this] { showStart(); });
    add("new", "new", tr("&New plan"), K::New, [this] {
        if (!mayDiscard())
            return;
        showNewPlan(autoPlanText(true).toUtf8());
        showTab(Tab::Plan);
    });
    add("open-plan", "open", tr("&Open plan\u2026"), K::Open, [this] { openPlanDialog(); });
    add("open-model", "model", tr("Open &model\u2026"), K(tr("Ctrl+Shift+O")), [this] { openModelDialog(); });
    add("open-comparison", {}, tr("Open saved &comparison\u2026"), {}, [this] {
        const QString file = QFileDialog::getOpenFileName(this, tr("Open comparison"), {}, tr("Comparisons (*.json)"));
        if (!file.isEmpty())
            openComparison(file);
    });
    add("save", "save", tr("&Save"), K::Save, [this] { savePlan(); });
    add("save-as", {}, tr("Save &as\u2026"), K::SaveAs, [this] { savePlanAs(); });
    add("export", "export", tr("&Export\u2026"), K(tr("Ctrl+E")), [this] { exportAs(QStringLiteral("yaml")); });
    add("quit", {}, tr("&Quit"), K::Quit, [this] { close(); });
}

void MainWindow::buildEditActions() {
    using K = QKeySequence;
    add("undo", "undo", tr("&Undo"), K::Undo, [this] {
        if (!inLineEdit(&QLineEdit::undo))
            m_plan->editor().undo();
    });
    add("redo", "redo", tr("&Redo"), K::Redo, [this] {
        if (!inLineEdit(&QLineEdit::redo))
            m_plan->editor().redo();
    });
    add("fix", "fix", tr("Apply &fix"), K(tr("Alt+Return")), [this] { m_plan->applyFix(); });
    action(QStringLiteral("fix"))->setShortcuts({K(tr("Alt+Return")), K(tr("Alt+Enter"))}); // both Enter keys
    add("next", {}, tr("&Next finding"), K(tr("F8")), [this] {
        showTab(Tab::Plan);
        m_plan->nextFinding(1);
    });
    add("previous", {}, tr("&Previous finding"), K(tr("Shift+F8")), [this] {
        showTab(Tab::Plan);
        m_plan->nextFinding(-1);
    });
    add("complete", {}, tr("&Complete"), K(tr("Ctrl+Space")), [this] { m_plan->editor().completeAtCaret(); });
    add("search", {}, tr("Search &modules"), K::Find, [this] {
        m_modelDock->show();
        m_model->search().setFocus();
    });
}

void MainWindow::buildMenus() {
    const auto fill = [this](QMenu *menu, const QStringList &names) {
        for (const QString &name : names)
            if (name.isEmpty())
                menu->addSeparator();
            else
                menu->addAction(action(name));
    };
    fill(menuBar()->addMenu(tr("&File")),
         {"start", "", "new", "open-plan", "open-model", "open-comparison", "", "save", "save-as"});
    auto *file = qobject_cast<QMenu *>(menuBar()->actions().constFirst()->menu());
    QMenu *exports = file->addMenu(tr("&Export"));
    for (const ExportFormat &format : exportFormats()) {
        const QString id = QString::fromLatin1(format.id);
        exports->addAction(tr("%1\u2026").arg(QCoreApplication::translate("ExportFormat", format.title)), this,
                           [this, id] { exportAs(id); });
    }
    exports->addSeparator();
    exports->addAction(tr("Pictures and everything else\u2026"), this, [this] { exportAs(QStringLiteral("picture")); });
    fill(file, {"", "quit"});
    fill(menuBar()->addMenu(tr("&Edit")), {"undo", "redo", "", "fix", "next", "previous", "complete", "", "search"});
    QMenu *view = menuBar()->addMenu(tr("&View"));
    for (int tab = 0; tab < m_tabs->count(); ++tab)
        view->addAction(m_tabs->tabText(tab), QKeySequence(tr("Ctrl+%1").arg(tab + 1)), this,
                        [this, tab] { showTab(static_cast<Tab>(tab)); });
    view->addSeparator();
    for (const QDockWidget *dock : {m_modelDock, m_findingsDock, m_runsDock, m_logDock, m_detailsDock})
        view->addAction(dock->toggleViewAction());
    view->addSeparator();
    buildThemeMenu(view->addMenu(tr("&Theme")));
    fill(menuBar()->addMenu(tr("&Run")), {"run", "compare-hooks", "compare-plan", "", "stop"});
    fill(menuBar()->addMenu(tr("&Help")), {"about"});
}

void MainWindow::buildThemeMenu(QMenu *menu) {
    auto *group = new QActionGroup(this);
    const int current = QSettings().value(QStringLiteral("theme"), 0).toInt();
    const QString titles[] = {tr("As the desktop"), tr("Light"), tr("Dark")};
    for (int kind = 0; kind < 3; ++kind) {
        QAction *chosen = menu->addAction(titles[kind], this, [this, kind] {
            QSettings().setValue(QStringLiteral("theme"), kind);
            setTheme(static_cast<ThemeKind>(kind));
        });
        chosen->setCheckable(true);
        chosen->setChecked(kind == current);
        group->addAction(chosen);
    }
}

void MainWindow::buildToolBar() {
    m_bar = addToolBar(tr("Tool bar"));
    m_bar->setObjectName(QStringLiteral("tools"));
    m_bar->setMovable(false);
    m_bar->setIconSize(QSize(18, 18));
    m_bar->setToolButtonStyle(Qt::ToolButtonIconOnly);
    for (const char *name : {"open-plan", "save", "undo", "redo"})
        m_bar->addAction(action(QLatin1String(name)));
    m_bar->addSeparator();
    const auto label = [this](const QString &text, QWidget *buddy) {
        auto *widget = new QLabel(text);
        widget->setContentsMargins(8, 0, 4, 0);
        widget->setBuddy(buddy);
        m_bar->addWidget(widget);
        m_bar->addWidget(buddy);
    };
    m_modelBox = new QComboBox;
    m_modelBox->setMinimumContentsLength(14);
    m_modelBox->setAccessibleName(tr("Model"));
    for (const std::string &name : bundledModelNames())
        m_modelBox->addItem(from(name));
    m_tpBox = new QSpinBox;
    m_tpBox->setRange(1, 4096);
    m_tpBox->setValue(m_workbench.tp());
    m_tpBox->setAccessibleName(tr("Tensor-parallel size"));
    m_tpBox->setToolTip(tr("Tensor-parallel size: the number of ranks"));
    label(tr("Model"), m_modelBox);
    label(tr("tp"), m_tpBox);
    m_backendBox = new QComboBox;
    m_hooksBox = new QComboBox;
    label(tr("Backend"), m_backendBox);
    label(tr("Hooks"), m_hooksBox);
    connect(m_modelBox, &QComboBox::textActivated, this, [this](const QString &name) {
        const bool own = !m_file.path().isEmpty() || m_plan->editor().isModified();
        beginModel(name, own ? OnOpen::Keep : OnOpen::AutoPlan);
    });
    connect(m_tpBox, &QSpinBox::valueChanged, &m_workbench, &PlanWorkbench::setTp);
    buildRunControls(m_bar);
}

void MainWindow::buildRunControls(QToolBar *bar) {
    const std::tuple<Backend, QString, QString> backends[] = {
        {Backend::Gloo, tr("gloo"), tr("Real ranks of this program's own executor: times are measured")},
        {Backend::Simulated, tr("simulated"), tr("A cost model: times are simulated, nothing is executed")},
        {Backend::Transformers, tr("transformers"), tr("The real library under torch.compile: times are measured")}};
    for (const auto &[backend, text, about] : backends) {
        m_backendBox->addItem(text, static_cast<int>(backend));
        m_backendBox->setItemData(m_backendBox->count() - 1, about, Qt::ToolTipRole);
    }
    m_backendBox->setToolTip(
        tr("What a run runs on: gloo and transformers measure, simulated computes from a cost model"));
    m_backendBox->setAccessibleName(tr("Backend"));
    connect(m_backendBox, &QComboBox::activated, this, [this] { m_backendChosen = true; });
    connect(m_backendBox, &QComboBox::currentIndexChanged, this,
            [this] { m_runs.setBackend(static_cast<Backend>(m_backendBox->currentData().toInt())); });
    m_runs.setBackend(Backend::Gloo);
    for (const HookMode mode :
         {HookMode::PostAccumulateGrad, HookMode::ModuleBackward, HookMode::TensorGrad, HookMode::None})
        m_hooksBox->addItem(from(name(mode)), static_cast<int>(mode));
    m_hooksBox->setToolTip(
        tr("How gradients of replicated parameters are summed; module-backward is transformers up to 5.21"));
    m_hooksBox->setAccessibleName(tr("Hook mode"));
    connect(m_hooksBox, &QComboBox::currentIndexChanged, this,
            [this] { m_workbench.setHooks(static_cast<HookMode>(m_hooksBox->currentData().toInt())); });
    bar->addSeparator();
    for (const char *name : {"run", "compare-hooks", "stop"}) {
        bar->addAction(action(QLatin1String(name)));
        if (auto *button = qobject_cast<QToolButton *>(bar->widgetForAction(action(QLatin1String(name)))))
            button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    }
    bar->addSeparator();
    bar->addAction(action(QStringLiteral("export")));
}

void MainWindow::updateActions() {
    const bool open = m_workbench.workspace() != nullptr;
    const bool running = m_runs.isRunning();
    for (const char *name : {"run", "compare-hooks", "compare-plan"})
        action(QLatin1String(name))->setEnabled(open && !running);
    action(QStringLiteral("stop"))->setEnabled(running);
    for (const char *name : {"new", "save", "save-as", "export", "fix", "next", "previous", "complete"})
        action(QLatin1String(name))->setEnabled(open);
    action(QStringLiteral("undo"))->setEnabled(m_plan->editor().isUndoAvailable());
    action(QStringLiteral("redo"))->setEnabled(m_plan->editor().isRedoAvailable());
}

} // namespace tpscope
