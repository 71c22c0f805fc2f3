// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <memory>

#include "models/planworkbench.h"
#include "models/runstore.h"
#include "models/selection.h"
#include "views/graphviewsections.h"

class QButtonGroup;
class QLabel;
class QScrollArea;

namespace tpscope {

class CounterTiles;
class GraphCanvas;

// "Hooks & graph": what torch.compile makes of one forward, module-backward hooks above the chosen hooks; predicted
// numbers with the measured ones of the current run below them. A click on a break or hook selects its module and the
// plan's line, and either selected elsewhere is marked here. All three must outlive the view. GUI thread.
class GraphView : public QWidget {
    Q_OBJECT

public:
    GraphView(PlanWorkbench *workbench, Selection *selection, RunStore *store, QWidget *parent = nullptr);

    bool savePng(const QString &file, double scale = 2.0); // the whole drawing; false: nothing to show, or not writable
    bool hasContent() const;

    void setPhase(GraphPhase phase);
    GraphPhase phase() const { return m_phase; }
    GraphCanvas *canvas() const { return m_canvas; }
    CounterTiles *tiles() const { return m_tiles; }
    QString details() const;

protected:
    void changeEvent(QEvent *event) override;

private:
    void buildLayout();
    void refresh();
    void refreshTiles();
    QString emptyReason() const;
    const GraphCapture *captureOf(int section) const; // 0 before, 1 after; null when there is none
    void onChosen(int section, const GraphItem &item);
    void followModule(const QString &module);
    void followLine(int line);
    void tell(const GraphCapture &capture, const QString &module);
    void onLink(const QString &link);

    PlanWorkbench *m_workbench;
    Selection *m_selection;
    RunStore *m_store;
    std::shared_ptr<const PlanAnalysis> m_analysis; // the one that is drawn
    GraphPhase m_phase = GraphPhase::Decode;
    QWidget *m_bar = nullptr;
    QButtonGroup *m_phases = nullptr;
    QLabel *m_subject = nullptr;
    CounterTiles *m_tiles = nullptr;
    QScrollArea *m_scroll = nullptr;
    GraphCanvas *m_canvas = nullptr;
    QLabel *m_details = nullptr;
    QLabel *m_empty = nullptr;
};

} // namespace tpscope
