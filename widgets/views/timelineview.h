// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QThreadPool>
#include <QWidget>
#include <array>
#include <memory>
#include <vector>

#include "models/runstore.h"
#include "models/selection.h"
#include "plot/timelinelanes.h"

class QComboBox;
class QCPRange;
class QCustomPlot;
class QLabel;
class QScrollArea;

namespace tpscope {

class TimelinePlottable;

// The current run's events per rank, before above after on one time axis, which zooms both alike. W S zoom, A D move,
// F fits; the wheel zooms and dragging moves. Hovering names an event, a click selects its module.
// store and selection must outlive the view. GUI thread; lanes of large traces are built on a worker.
class TimelineView : public QWidget {
    Q_OBJECT

public:
    TimelineView(RunStore *store, Selection *selection, QWidget *parent = nullptr);
    ~TimelineView() override;

    bool savePng(const QString &file, double scale = 2.0); // false: nothing to show, or not writable
    bool hasContent() const;

    TimeRange shownRange() const; // nanoseconds since the first token began
    TimeRange fullRange() const;
    void showRange(const TimeRange &range); // clamped to what there is
    void fit();
    QCustomPlot *plot() const { return m_plot; }
    TimelinePlottable *plottable() const { return m_plottable; }

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void changeEvent(QEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    // One side's trace with, in place of missing events, its tokens end to end.
    struct Side {
        std::shared_ptr<const RunTrace> trace;
        QString word; // "A before"; empty for a single run
        bool endToEnd = false;
    };
    struct LaneOf {
        std::size_t side = 0;
        RankLane lane;
    };
    // Which event a lane's item is.
    struct LaneKey {
        std::size_t side = 0;
        std::size_t rank = 0;
    };

    static constexpr int allRanks = -1; // of the rank box

    void buildBar();
    void buildLayout();
    void buildPlot();
    void applyColors();
    void onRunChanged();
    void fillRanks();
    void rebuild();
    void showLanes(std::vector<LaneOf> lanes);
    QString laneTitle(const LaneOf &lane) const;
    void setNote();
    void onHover(const QPoint &position);
    void onClick(const QPoint &position);
    void onRangeChanged(const QCPRange &range);
    void followModule(const QString &module);
    void zoomAbout(double about, double factor);
    QString describe(int lane, int item) const;
    const Event *eventAt(int lane, int item) const;
    const RunTrace &traceOf(int lane) const;

    RunStore *m_store;
    Selection *m_selection;
    QComboBox *m_rankBox = nullptr;
    QLabel *m_note = nullptr;
    QLabel *m_details = nullptr;
    QLabel *m_empty = nullptr;
    QWidget *m_bar = nullptr;
    QScrollArea *m_scroll = nullptr;
    QCustomPlot *m_plot = nullptr;
    TimelinePlottable *m_plottable = nullptr;
    std::vector<Side> m_sides;
    std::vector<LaneKey> m_keys; // by lane of the plottable
    bool m_adjusting = false;
    quint64 m_serial = 0; // newest rebuild
    QThreadPool m_pool;
};

} // namespace tpscope
