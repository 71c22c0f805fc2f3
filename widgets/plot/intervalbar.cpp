// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/intervalbar.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "style/theme.h"

namespace tpscope {

double positionOn(double value, double low, double high, int width, int margin) {
    const double room = std::max(1, width - 2 * margin);
    return high > low ? margin + room * (value - low) / (high - low) : width / 2.0;
}

IntervalBar::IntervalBar(QWidget *parent) : QWidget(parent) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void IntervalBar::setDifference(double deltaMs, const std::optional<std::array<double, 2>> &interval) {
    m_delta = deltaMs;
    m_interval = interval;
    QString words = interval ? tr("Difference %1 ms, 95 % interval %2 to %3 ms") : tr("Difference %1 ms, no interval");
    words = words.arg(deltaMs, 0, 'f', 2);
    if (interval)
        words = words.arg((*interval)[0], 0, 'f', 2).arg((*interval)[1], 0, 'f', 2);
    setAccessibleName(words);
    update();
}

QSize IntervalBar::sizeHint() const { return {480, fontMetrics().height() * 3 + 18}; }
QSize IntervalBar::minimumSizeHint() const { return {240, sizeHint().height()}; }

void IntervalBar::paintEvent(QPaintEvent *) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const double low = std::min(0.0, m_interval ? (*m_interval)[0] : m_delta);
    const double high = std::max(0.0, m_interval ? (*m_interval)[1] : m_delta);
    const double spread = std::max(high - low, 1e-9) * 0.25;
    const int line = fontMetrics().height();
    const int y = line + 14;
    constexpr int margin = 60;
    const auto at = [&](double value) { return positionOn(value, low - spread, high + spread, width(), margin); };
    const QColor text = palette().color(QPalette::Text);
    painter.setPen(QPen(Theme::grid(), 1));
    painter.drawLine(QPointF(margin, y), QPointF(width() - margin, y));
    painter.setPen(QPen(text, 1, Qt::DashLine));
    painter.drawLine(QPointF(at(0), y - 12), QPointF(at(0), y + 12));
    const auto label = [&](double value, int top, const QString &what) {
        const int textWidth = painter.fontMetrics().horizontalAdvance(what);
        const double left = std::clamp(at(value) - textWidth / 2.0, 0.0, std::max(0.0, width() - 1.0 * textWidth));
        painter.drawText(QRectF(left, top, textWidth + 2, line), Qt::AlignLeft | Qt::AlignVCenter, what);
    };
    painter.setPen(Theme::subtleText());
    label(0, y + 14, tr("0 = no difference"));
    const QColor color = Theme::accent();
    if (m_interval) {
        painter.setPen(QPen(color, 3));
        painter.drawLine(QPointF(at((*m_interval)[0]), y), QPointF(at((*m_interval)[1]), y));
        for (const double end : *m_interval)
            painter.drawLine(QPointF(at(end), y - 6), QPointF(at(end), y + 6));
    }
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawEllipse(QPointF(at(m_delta), y), 5, 5);
    painter.setPen(text);
    const QString delta = QStringLiteral("%1%2 ms").arg(m_delta > 0 ? "+" : "").arg(m_delta, 0, 'f', 2);
    label(m_delta, 2, m_interval ? tr("%1  (95 % interval %2 to %3)").arg(delta)
                                       .arg((*m_interval)[0], 0, 'f', 2).arg((*m_interval)[1], 0, 'f', 2)
                                 : delta);
}

} // namespace tpscope
