// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "models/planworkbench.h"
#include "models/runstore.h"

class QLabel;
class QScrollArea;
class QTableWidget;
class QVBoxLayout;

namespace tpscope {

class CounterTiles;
class IntervalBar;
struct ReportTable;

// The current comparison: verdict in words first, then large numbers, the difference with its interval, what differs
// between the plans, every number with its source, and what the numbers rest on. Both must outlive it. GUI thread.
class CompareView : public QWidget {
    Q_OBJECT

public:
    CompareView(RunStore *store, PlanWorkbench *workbench, QWidget *parent = nullptr);

    bool savePng(const QString &file, double scale = 2.0); // the whole page; false: nothing to show, or not writable
    bool hasContent() const;
    QString headline() const;
    CounterTiles *tiles() const { return m_tiles; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void buildLayout();
    void refresh();
    void showComparison(const Comparison &comparison);
    void showPlans(const Comparison &comparison);
    QTableWidget *addTable(const ReportTable &table);
    QLabel *addText(const QString &text, bool subtle = false);
    void addTitle(const QString &text);
    void clearTables();

    RunStore *m_store;
    PlanWorkbench *m_workbench;
    QScrollArea *m_scroll = nullptr;
    QWidget *m_page = nullptr;
    QLabel *m_title = nullptr;
    QLabel *m_headline = nullptr;
    QLabel *m_reason = nullptr;
    CounterTiles *m_tiles = nullptr;
    IntervalBar *m_interval = nullptr;
    QWidget *m_rest = nullptr;        // what depends on the comparison: tables and notes, made anew each time
    QVBoxLayout *m_restLayout = nullptr;
    QLabel *m_empty = nullptr;
};

} // namespace tpscope
