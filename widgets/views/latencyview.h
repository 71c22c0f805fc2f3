// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "models/runstore.h"
#include "plot/latencyseries.h"
#include "plot/timelinegeometry.h"

class QCPAxisRect;
class QCPRange;
class QCustomPlot;
class QLabel;

namespace tpscope {

// Time a token of the current run: each step in order, its distribution beside it on the same scale, the first tokens
// apart; before hollow, after filled. W S zoom over the steps, A D move, F fits. store must outlive it. GUI thread.
class LatencyView : public QWidget {
    Q_OBJECT

public:
    explicit LatencyView(RunStore *store, QWidget *parent = nullptr);

    bool savePng(const QString &file, double scale = 2.0); // false: nothing to show, or not writable
    bool hasContent() const;
    TimeRange shownSteps() const; // the x axis, in steps
    TimeRange fullSteps() const;
    void fit();
    QCustomPlot *plot() const { return m_plot; }
    QString summary() const;

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void changeEvent(QEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    struct Side {
        std::shared_ptr<const RunTrace> trace;
        LatencySeries series;
        bool before = false; // of a comparison: drawn hollow
        QString word;
    };
    void buildLayout();
    void buildPlot();
    void onRunChanged();
    void draw();
    void drawFirstTokens();
    void drawSteps(const Side &side);
    void drawLevels(const Side &side);
    void drawRepeats(const Side &side);
    void drawDistribution();
    void setRanges();
    void setSummary();
    void showRange(const TimeRange &steps);

    RunStore *m_store;
    std::vector<Side> m_sides;
    QLabel *m_summary = nullptr;
    QLabel *m_empty = nullptr;
    QCustomPlot *m_plot = nullptr;
    QCPAxisRect *m_firstRect = nullptr;
    QCPAxisRect *m_stepRect = nullptr;
    QCPAxisRect *m_distRect = nullptr;
    bool m_adjusting = false;
};

} // namespace tpscope
