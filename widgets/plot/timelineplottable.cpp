// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelineplottable.h"

#include <algorithm>

namespace tpscope {
namespace {

constexpr double laneGap = 0.14; // share of a lane left free above and below
constexpr int labelMinimum = 36; // pixels a span needs before its name is written into it

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
    for (std::size_t i = 0; i < m_lanes.size(); ++i)
        drawLane(painter, i, area);
}

void TimelinePlottable::drawLane(QCPPainter *painter, std::size_t index, const QRectF &area) const {
    const Lane &lane = m_lanes[index];
    const double centre = static_cast<double>(index);
    const double top = mValueAxis->coordToPixel(centre - 0.5 + laneGap);
    const double bottom = mValueAxis->coordToPixel(centre + 0.5 - laneGap);
    const double upper = std::min(top, bottom);
    const double height = std::abs(bottom - top);
    if (upper > area.bottom() || upper + height < area.top() || height < 1)
        return;
    const QCPRange keys = mKeyAxis->range();
    const bool labels = m_labels && painter->fontMetrics().height() <= height;
    for (const PixelRun &run : visibleRuns(lane.spans, keys.lower, keys.upper, static_cast<int>(area.width()))) {
        const TimelineSpan &span = lane.spans.spans()[run.span];
        const QColor color = span.kind < m_colors.size() ? m_colors[span.kind] : QColor(Qt::gray);
        const QRectF rect(area.left() + run.left, upper, run.right - run.left, height);
        if (lane.hollow && rect.width() > 3) {
            painter->setPen(QPen(color, 1));
            painter->setBrush(QColor(color.red(), color.green(), color.blue(), 60));
            painter->drawRect(rect.adjusted(0.5, 0.5, -1, -1));
        } else {
            painter->fillRect(rect, color);
        }
        if (labels && rect.width() >= labelMinimum && span.item >= 0) {
            const bool light = lane.hollow || color.lightness() > 140;
            painter->setPen(lane.hollow ? mParentPlot->palette().color(QPalette::Text)
                                        : (light ? QColor(Qt::black) : QColor(Qt::white)));
            const QRectF textRect = rect.adjusted(4, 0, -4, 0);
            painter->drawText(textRect, Qt::AlignVCenter | Qt::AlignLeft,
                              painter->fontMetrics().elidedText(m_labels(span.item), Qt::ElideRight,
                                                                static_cast<int>(textRect.width())));
        }
    }
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
