// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelineplottable.h"

#include <algorithm>
#include <cmath>

#include "plot/plotstyle.h"

namespace tpscope {
namespace {

constexpr double laneGap = 0.16; // share of a lane left free above and below
constexpr int labelMinimum = 24; // pixels a span needs before its name is written into it
constexpr int elidedMinimum = 56; // and before a part of it is

} // namespace

TimelinePlottable::TimelinePlottable(QCPAxis *keyAxis, QCPAxis *valueAxis) : QCPAbstractPlottable(keyAxis, valueAxis) {
    setAntialiased(false);
    setAntialiasedFill(false);
}

void TimelinePlottable::setLanes(std::vector<Lane> lanes) { m_lanes = std::move(lanes); }

TimeRange TimelinePlottable::fullRange() const {
    bool any = false;
    TimeRange range;
    for (const Lane &lane : m_lanes) {
        if (lane.spans.spans().empty())
            continue;
        const double from = static_cast<double>(lane.spans.spans().front().start);
        const double to = static_cast<double>(lane.spans.spans().back().end());
        range = any ? TimeRange{std::min(range.from, from), std::max(range.to, to)} : TimeRange{from, to};
        any = true;
    }
    if (range.to <= range.from)
        range.to = range.from + 1;
    return range;
}

TimelinePlottable::Hit TimelinePlottable::hitAt(const QPointF &position) const {
    const QRect area = clipRect();
    if (!mKeyAxis || !mValueAxis || !area.contains(position.toPoint()))
        return {};
    const int lane = static_cast<int>(std::floor(mValueAxis->pixelToCoord(position.y()) + 0.5));
    if (lane < 0 || lane >= static_cast<int>(m_lanes.size()))
        return {};
    const QCPRange keys = mKeyAxis->range();
    const TimelineLane &spans = m_lanes[static_cast<std::size_t>(lane)].spans;
    const std::ptrdiff_t index =
        spanAt(spans, keys.lower, keys.upper, area.width(), static_cast<int>(position.x()) - area.left());
    if (index < 0)
        return {lane, -1, {}};
    const TimelineSpan &span = spans.spans()[static_cast<std::size_t>(index)];
    return {lane, span.item, span};
}

void TimelinePlottable::draw(QCPPainter *painter) {
    if (!mKeyAxis || !mValueAxis)
        return;
    const QRectF area = clipRect();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        if (m_lanes[i].begins) {
            const double y = std::round(mValueAxis->coordToPixel(static_cast<double>(i) - 0.5)) + 0.5;
            painter->setPen(QPen(mKeyAxis->basePen().color(), 1));
            painter->drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
        }
        drawLane(painter, i, area);
    }
}

void TimelinePlottable::drawLane(QCPPainter *painter, std::size_t index, const QRectF &area) const {
    const Lane &lane = m_lanes[index];
    const double centre = static_cast<double>(index);
    const double top = mValueAxis->coordToPixel(centre - 0.5 + laneGap);
    const double bottom = mValueAxis->coordToPixel(centre + 0.5 - laneGap);
    const double upper = std::round(std::min(top, bottom));
    const double height = std::round(std::abs(bottom - top));
    if (upper > area.bottom() || upper + height < area.top() || height < 1)
        return;
    const QCPRange keys = mKeyAxis->range();
    const bool labels = m_labels && painter->fontMetrics().height() <= height + 2;
    const auto runs = visibleRuns(lane.spans, keys.lower, keys.upper, static_cast<int>(area.width()));
    for (const PixelRun &run : runs)
        drawRun(painter, index, run, QRectF(area.left() + run.left, upper, run.right - run.left, height), labels);
    // Marks last: what lies beside a rare span must not cover its mark.
    for (const PixelRun &run : runs)
        if (lane.spans.spans()[run.span].weight >= markedWeight)
            drawMark(painter, QRectF(area.left() + run.left, upper, run.right - run.left, height));
}

void TimelinePlottable::drawRun(QCPPainter *painter, std::size_t index, const PixelRun &run, const QRectF &rect,
                                bool labels) const {
    const Lane &lane = m_lanes[index];
    const TimelineSpan &span = lane.spans.spans()[run.span];
    const int item = span.item;
    const QColor color = span.kind < m_colors.size() ? m_colors[span.kind] : QColor(Qt::gray);
    if (lane.hollow && rect.width() > 3) {
        QColor inside = color;
        inside.setAlpha(60);
        painter->fillRect(rect, inside);
        painter->setPen(QPen(color, 1));
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(rect.adjusted(0.5, 0.5, -1, -0.5));
    } else {
        // A pixel stays free between wide neighbours, so that two of one kind are seen as two.
        const QRect whole = rect.toRect();
        painter->fillRect(whole.width() > 3 ? whole.adjusted(0, 0, -1, 0) : whole, color);
    }
    if (m_highlighted && item >= 0 && m_highlighted(static_cast<int>(index), item)) {
        painter->setPen(QPen(m_highlightColor, 2));
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(rect.adjusted(1, 1, -1, -1));
    }
    if (!labels || rect.width() < labelMinimum || item < 0)
        return;
    const QColor text = mParentPlot->palette().color(QPalette::Text);
    painter->setPen(lane.hollow ? text : textOn(color));
    const QRectF inside = rect.adjusted(4, 0, -4, 0);
    const QString label = m_labels(static_cast<int>(index), item);
    // A beginning of three letters tells nothing.
    if (inside.width() < elidedMinimum && painter->fontMetrics().horizontalAdvance(label) > inside.width())
        return;
    painter->drawText(inside, Qt::AlignVCenter | Qt::AlignLeft,
                      painter->fontMetrics().elidedText(label, Qt::ElideRight, static_cast<int>(inside.width())));
}

void TimelinePlottable::drawMark(QCPPainter *painter, const QRectF &rect) const {
    const double x = rect.center().x();
    constexpr double half = 4;
    QPolygonF triangle;
    triangle << QPointF(x - half, rect.top() - 3) << QPointF(x + half, rect.top() - 3) << QPointF(x, rect.top() + 4);
    painter->setPen(Qt::NoPen);
    painter->setBrush(m_markColor);
    painter->drawPolygon(triangle);
}

void TimelinePlottable::drawLegendIcon(QCPPainter *painter, const QRectF &rect) const {
    painter->fillRect(rect, m_colors.empty() ? QColor(Qt::gray) : m_colors.front());
}

double TimelinePlottable::selectTest(const QPointF &pos, bool, QVariant *details) const {
    const Hit hit = hitAt(pos);
    if (hit.item < 0)
        return -1;
    if (details)
        *details = hit.item;
    return 0;
}

QCPRange TimelinePlottable::getKeyRange(bool &foundRange, QCP::SignDomain) const {
    foundRange = !m_lanes.empty();
    const TimeRange range = fullRange();
    return {range.from, range.to};
}

QCPRange TimelinePlottable::getValueRange(bool &foundRange, QCP::SignDomain, const QCPRange &) const {
    foundRange = !m_lanes.empty();
    return {-0.5, static_cast<double>(m_lanes.size()) - 0.5};
}

} // namespace tpscope
