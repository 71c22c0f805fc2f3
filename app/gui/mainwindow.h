// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QHash>
#include <QMainWindow>
#include <memory>

#include "app/gui/filekind.h"
#include "app/gui/planfile.h"
#include "models/planworkbench.h"
#include "models/runcontroller.h"
#include "models/runstore.h"
#include "models/selection.h"
#include "style/theme.h"
#include "views/startpage.h"

class QComboBox;
class QDockWidget;
class QLabel;
class QSpinBox;
class QStackedWidget;
class QTabWidget;
class QToolBar;

namespace tpscope {

class DetailsView;
class FindingsView;
class LogView;
class ModelView;
class OutcomeBar;
class PlanView;
class RunsView;

// The window: actions, tool bar, docks and tabs, and the file of the plan. What is shown is in the views; what they
// share is in the workbench, the selection and the run store. GUI thread.
class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    enum class Tab { Plan, Graph, Timeline, Latency, Compare };

    explicit MainWindow(QWidget *parent = nullptr);
    ~MainWindow() override;

    void showStart();
    void openModel(const QString &argument); // with its built-in plan as text
    void openPlan(const QString &path);      // over the model that is open, else the one it was written for
    void openExample(StartPage::Way way);
    void openComparison(const QString &path);                     // read on a worker
    // Whatever it is, found out on a worker; dropped onto a way of the start page it is shown as that way's answer.
    void openPath(const QString &path, std::optional<StartPage::Way> way = {});
    void openWith(const QString &model, const QString &planPath); // what the command line named
    void setTheme(ThemeKind kind);
    void showTab(Tab tab);
    bool savePlan(); // false: not saved

    PlanWorkbench &workbench() { return m_workbench; }
    RunStore &store() { return m_store; }
    RunController &runs() { return m_runs; }
    Selection &selection() { return m_selection; }
    PlanFile &file() { return m_file; }
    PlanView &planView() { return *m_plan; }
    FindingsView &findings() { return *m_findings; }
    ModelView &modelView() { return *m_model; }
    RunsView &runsView() { return *m_runsView; }
    StartPage &startPage() { return *m_start; }
    QAction *action(const QString &name) const { return m_actions.value(name); }

signals:
    void recordingLoaded(); // the comparison of openComparison() is shown
    void problem(const QString &text);

protected:
    void closeEvent(QCloseEvent *event) override;
    void dragEnterEvent(QDragEnterEvent *event) override;
    void dropEvent(QDropEvent *event) override;

private:
    enum class OnOpen { Keep, AutoPlan, PlanWithoutSync, File };

    // mainwindow.cpp: parts and how they hang together
    void buildCentre();
    void buildDocks();
    void connectParts();
    void connectRuns();
    void followTpSize(const PlanAnalysis &analysis);
    void arrange(Tab tab);
    void leaveStart();
    void updateTitle();
    void refreshTheme();
    void say(const QString &text, bool log = true);
    void complain(const QString &text);

    // mainwindowactions.cpp: menus and tool bar
    QAction *add(const QString &name, const QString &icon, const QString &text, const QKeySequence &keys,
                 std::function<void()> run);
    void buildActions();
    void buildFileActions();
    void buildEditActions();
    void buildMenus();
    void buildToolBar();
    void buildRunControls(QToolBar *bar);
    void buildThemeMenu(QMenu *view);
    void updateActions();

    // mainwindowfiles.cpp: plans, models and exports
    bool mayDiscard(); // asks before losing edits
    bool savePlanAs();
    void openPlanDialog();
    void openModelDialog();
    void beginModel(const QString &argument, OnOpen then, const QString &planPath = {});
    void showNewPlan(const QByteArray &text);
    void onModelOpened();
    void onChangedOnDisk(const QByteArray &text);
    void exportAs(const QString &formatId);
    void remember(const QString &path);
    QString autoPlanText(bool withSync) const;
    void loadRecordedVerdict();
    void openAs(const QString &path, FileKind kind, std::optional<StartPage::Way> way);
    void about();

    PlanWorkbench m_workbench;
    Selection m_selection;
    RunStore m_store;
    RunController m_runs;
    PlanFile m_file;

    QStackedWidget *m_centre = nullptr;
    StartPage *m_start = nullptr;
    QTabWidget *m_tabs = nullptr;
    PlanView *m_plan = nullptr;
    struct Plot {
        QString title;
        std::function<bool()> hasContent;
        std::function<bool(const QString &)> savePng;
    };
    std::vector<Plot> m_plots;
    ModelView *m_model = nullptr;
    FindingsView *m_findings = nullptr;
    RunsView *m_runsView = nullptr;
    LogView *m_log = nullptr;
    DetailsView *m_details = nullptr;
    OutcomeBar *m_outcome = nullptr;
    QDockWidget *m_modelDock = nullptr;
    QDockWidget *m_findingsDock = nullptr;
    QDockWidget *m_runsDock = nullptr;
    QDockWidget *m_logDock = nullptr;
    QDockWidget *m_detailsDock = nullptr;
    QToolBar *m_bar = nullptr;
    QComboBox *m_modelBox = nullptr;
    QSpinBox *m_tpBox = nullptr;
    QComboBox *m_backendBox = nullptr;
    QComboBox *m_hooksBox = nullptr;
    QHash<QString, QAction *> m_actions;
    QHash<int, QByteArray> m_layouts; // of the docks, by tab
    int m_shownTab = -1;
    OnOpen m_onOpen = OnOpen::AutoPlan;
    bool m_opening = false; // a model
    QString m_planToOpen;
    std::optional<int> m_writtenTp; // tp_size of the text as last seen
    bool m_backendChosen = false;   // by the user: a model does not change it any more
};

} // namespace tpscope
