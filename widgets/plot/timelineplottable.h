// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QString>
#include <functional>
#include <qcustomplot.h>
#include <vector>

#include "plot/timelinegeometry.h"

namespace tpscope {

// All lanes of a timeline as one plottable: one rectangle a run of pixel columns, so that a million spans redraw in the
// time of a few thousand rectangles. Key axis: nanoseconds. Value axis: lanes, 0 at the top (reversed by the view).
// Owned by its QCustomPlot, as every plottable.
class TimelinePlottable : public QCPAbstractPlottable {
    Q_OBJECT

public:
    struct Lane {
        QString title;
        TimelineLane spans;
        bool hollow = false; // outlines only: the side "before"
        bool begins = false; // a group of lanes begins here: a line above it
    };
    // Spans of at least this weight carry a mark above them, however thin they are.
    static constexpr int markedWeight = 250;

    TimelinePlottable(QCPAxis *keyAxis, QCPAxis *valueAxis);

    void setLanes(std::vector<Lane> lanes);
    const std::vector<Lane> &lanes() const { return m_lanes; }
    void setColors(std::vector<QColor> colorsByKind, QColor mark, QColor highlight) {
        m_colors = std::move(colorsByKind);
        m_markColor = mark;
        m_highlightColor = highlight;
    }
    // What is written into wide spans. item: TimelineSpan::item.
    void setLabels(std::function<QString(int lane, int item)> labels) { m_labels = std::move(labels); }
    // Which spans get a border; an empty function: none.
    void setHighlight(std::function<bool(int lane, int item)> highlighted) { m_highlighted = std::move(highlighted); }

    struct Hit {
        int lane = -1;
        int item = -1;
        TimelineSpan span;
    };
    // What is under a widget position; lane -1 when nothing is.
    Hit hitAt(const QPointF &position) const;
    TimeRange fullRange() const;

    double selectTest(const QPointF &pos, bool onlySelectable, QVariant *details = nullptr) const override;
    QCPRange getKeyRange(bool &foundRange, QCP::SignDomain inSignDomain = QCP::sdBoth) const override;
    QCPRange getValueRange(bool &foundRange, QCP::SignDomain inSignDomain = QCP::sdBoth,
                           const QCPRange &inKeyRange = QCPRange()) const override;

protected:
    void draw(QCPPainter *painter) override;
    void drawLegendIcon(QCPPainter *painter, const QRectF &rect) const override;

private:
    void drawLane(QCPPainter *painter, std::size_t index, const QRectF &area) const;
    void drawRun(QCPPainter *painter, std::size_t lane, const PixelRun &run, const QRectF &rect, bool labels) const;
    void drawMark(QCPPainter *painter, const QRectF &rect) const;
    std::vector<Lane> m_lanes;
    std::vector<QColor> m_colors;
    QColor m_markColor = Qt::red;
    QColor m_highlightColor = Qt::blue;
    std::function<QString(int, int)> m_labels;
    std::function<bool(int, int)> m_highlighted;
};

} // namespace tpscope
