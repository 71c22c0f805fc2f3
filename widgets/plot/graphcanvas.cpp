// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/graphcanvas.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "plot/plotstyle.h"
#include "style/theme.h"

namespace tpscope {

GraphCanvas::GraphCanvas(QWidget *parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Minimum);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
    setAccessibleName(tr("Graphs and breaks of one forward"));
}

TextMeasure GraphCanvas::measure() const {
    const QFontMetrics metrics(font());
    return {[metrics](const QString &text) { return metrics.horizontalAdvance(text); }, metrics.height()};
}

void GraphCanvas::setSections(std::vector<GraphSection> sections) {
    m_sections = std::move(sections);
    m_current = -1;
    relayout();
}

void GraphCanvas::relayout() {
    m_layout = layOut(m_sections, width(), measure());
    setMinimumHeight(m_layout.height);
    updateGeometry();
    update();
}

int GraphCanvas::heightForWidth(int width) const { return layOut(m_sections, width, measure()).height; }

QSize GraphCanvas::sizeHint() const { return {640, heightForWidth(640)}; }

const GraphItem &GraphCanvas::itemOf(const PlacedItem &placed) const {
    return m_sections[static_cast<std::size_t>(placed.section)]
        .groups[static_cast<std::size_t>(placed.group)]
        .items[static_cast<std::size_t>(placed.item)];
}

QRect GraphCanvas::highlight(const QString &module) {
    m_highlighted = module;
    update();
    const auto found = std::ranges::find_if(
        m_layout.items, [&](const PlacedItem &placed) { return !module.isEmpty() && itemOf(placed).module == module; });
    return found == m_layout.items.end() ? QRect() : found->rect;
}

void GraphCanvas::resizeEvent(QResizeEvent *) { relayout(); }

bool GraphCanvas::event(QEvent *event) {
    if (event->type() == QEvent::ToolTip) {
        const auto *help = static_cast<QHelpEvent *>(event);
        const int index = m_layout.itemAt(help->pos());
        const auto section = std::ranges::find_if(
            m_layout.sections, [&](const PlacedSection &placed) { return placed.notes.contains(help->pos()); });
        if (index >= 0)
            QToolTip::showText(help->globalPos(), itemOf(m_layout.items[static_cast<std::size_t>(index)]).tip, this);
        else if (section != m_layout.sections.end()) // a narrow view cuts the notes
            QToolTip::showText(help->globalPos(),
                               notesOf(static_cast<std::size_t>(section - m_layout.sections.begin())), this);
        else
            QToolTip::hideText();
        return true;
    }
    if (event->type() == QEvent::FontChange)
        relayout();
    return QWidget::event(event);
}

QString GraphCanvas::notesOf(std::size_t section) const {
    QStringList lines;
    for (const QString &note : m_sections[section].notes)
        lines << note;
    return lines.join('\n');
}

void GraphCanvas::choose(int index) {
    m_current = index;
    update();
    if (index < 0)
        return;
    const PlacedItem &placed = m_layout.items[static_cast<std::size_t>(index)];
    const GraphItem item = itemOf(placed); // a copy: whoever listens may set other sections
    emit chosen(placed.section, item);
}

void GraphCanvas::mousePressEvent(QMouseEvent *event) {
    if (event->button() == Qt::LeftButton)
        choose(m_layout.itemAt(event->pos()));
}

void GraphCanvas::mouseMoveEvent(QMouseEvent *event) {
    setCursor(m_layout.itemAt(event->pos()) >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
}

void GraphCanvas::focusInEvent(QFocusEvent *event) {
    QWidget::focusInEvent(event);
    if (m_current < 0 && !m_layout.items.empty() && event->reason() != Qt::MouseFocusReason)
        m_current = 0;
    update();
}

void GraphCanvas::keyPressEvent(QKeyEvent *event) {
    const int count = static_cast<int>(m_layout.items.size());
    const int key = event->key();
    const bool moves = key == Qt::Key_Left || key == Qt::Key_Right;
    if (count == 0 || !(moves || key == Qt::Key_Return || key == Qt::Key_Enter || key == Qt::Key_Space)) {
        QWidget::keyPressEvent(event);
        return;
    }
    if (!moves) {
        choose(m_current);
        return;
    }
    m_current = std::clamp(m_current + (key == Qt::Key_Right ? 1 : -1), 0, count - 1);
    emit currentMoved(m_layout.items[static_cast<std::size_t>(m_current)].rect);
    update();
}

void GraphCanvas::paintEvent(QPaintEvent *) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    for (std::size_t i = 0; i < m_sections.size(); ++i)
        drawSection(painter, i);
    const QColor text = palette().color(QPalette::Text);
    for (const PlacedGroup &group : m_layout.groups) {
        painter.setPen(QPen(mixed(palette().color(QPalette::Base), text, 0.3), 1));
        painter.setBrush(palette().color(QPalette::AlternateBase));
        painter.drawRoundedRect(QRectF(group.rect).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
        const QString &title = m_sections[static_cast<std::size_t>(group.section)]
                                   .groups[static_cast<std::size_t>(group.group)]
                                   .title;
        QFont bold = font();
        bold.setBold(true);
        painter.setFont(bold);
        painter.setPen(text);
        painter.drawText(group.rect.adjusted(8, 3, -8, 0), Qt::AlignLeft | Qt::AlignTop, title);
        painter.setFont(font());
    }
    for (std::size_t i = 0; i < m_layout.items.size(); ++i)
        drawItem(painter, static_cast<int>(i));
}

void GraphCanvas::drawSection(QPainter &painter, std::size_t index) const {
    const GraphSection &section = m_sections[index];
    const PlacedSection &placed = m_layout.sections[index];
    const QRect heading = placed.heading;
    QFont bold = font();
    bold.setBold(true);
    painter.setFont(bold);
    const int badge = fontMetrics().height() + 4;
    const QRect badgeRect(heading.left(), heading.center().y() - badge / 2, badge, badge);
    painter.setPen(Qt::NoPen);
    painter.setBrush(Theme::color(Meaning::Before));
    painter.drawRoundedRect(badgeRect, 4, 4);
    painter.setPen(Theme::isDark() ? Qt::black : Qt::white);
    painter.drawText(badgeRect, Qt::AlignCenter, section.mark);
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(heading.adjusted(badge + 8, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, section.title);
    painter.setFont(font());
    const int left = heading.left() + badge + 24 + QFontMetrics(bold).horizontalAdvance(section.title);
    const QRect room(left, heading.top(), heading.right() - left, heading.height());
    painter.drawText(room, Qt::AlignRight | Qt::AlignVCenter,
                     fontMetrics().elidedText(section.counts, Qt::ElideRight, room.width()));
    painter.setPen(Theme::subtleText());
    for (std::size_t i = 0; i < section.notes.size(); ++i)
        painter.drawText(QRect(placed.notes.left(), placed.notes.top() + static_cast<int>(i) * fontMetrics().height(),
                               placed.notes.width(), fontMetrics().height()),
                         Qt::AlignLeft | Qt::AlignVCenter,
                         fontMetrics().elidedText(section.notes[i], Qt::ElideRight, placed.notes.width()));
}

void GraphCanvas::drawBreak(QPainter &painter, const QRect &rect, const GraphItem &item) const {
    // A torn edge: where the graph ends and Python goes on.
    const QColor color = Theme::color(Meaning::Error);
    painter.setPen(QPen(color, 2));
    QPolygon zigzag;
    for (int y = rect.top(), i = 0; y <= rect.bottom(); y += 5, ++i)
        zigzag << QPoint(rect.left() + (i % 2 ? 5 : 1), y);
    painter.drawPolyline(zigzag);
    const QRect text = rect.adjusted(9, 6, 0, -6);
    painter.drawText(text, Qt::AlignLeft | Qt::AlignTop, Theme::mark(Meaning::Error) + ' ' + tr("break"));
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(text.adjusted(0, fontMetrics().height(), 0, 0), Qt::AlignLeft | Qt::AlignTop, item.title);
}

void GraphCanvas::drawItem(QPainter &painter, int index) const {
    const PlacedItem &placed = m_layout.items[static_cast<std::size_t>(index)];
    const GraphItem &item = itemOf(placed);
    const bool marked = !m_highlighted.isEmpty() && item.module == m_highlighted;
    const QRectF box = QRectF(placed.rect).adjusted(0.5, 0.5, -0.5, -0.5);
    const QColor text = palette().color(QPalette::Text);
    if (item.kind == GraphItem::Kind::Break) {
        drawBreak(painter, placed.rect, item);
    } else {
        const bool eager = item.kind == GraphItem::Kind::Eager;
        painter.setBrush(eager ? QBrush(Qt::NoBrush)
                               : QBrush(mixed(palette().color(QPalette::Base), Theme::color(Meaning::Before), 0.14)));
        painter.setPen(QPen(eager ? Theme::subtleText() : Theme::color(Meaning::Before), 1,
                            eager ? Qt::DashLine : Qt::SolidLine));
        painter.drawRoundedRect(box, 4, 4);
        QRect title = placed.rect.adjusted(6, 6, -6, -6);
        if (item.hook) {
            painter.setPen(Theme::color(Meaning::Hook));
            painter.drawText(title, Qt::AlignLeft | Qt::AlignTop, Theme::mark(Meaning::Hook));
            title.adjust(fontMetrics().horizontalAdvance(Theme::mark(Meaning::Hook)) + 4, 0, 0, 0);
        }
        painter.setPen(text);
        painter.drawText(title, Qt::AlignLeft | Qt::AlignTop,
                         fontMetrics().elidedText(item.title, Qt::ElideRight, title.width()));
        painter.setPen(mixed(palette().color(QPalette::Base), text, 0.7));
        for (std::size_t i = 0; i < placed.lines.size(); ++i)
            painter.drawText(QRect(placed.bodyRect.left(),
                                   placed.bodyRect.top() + static_cast<int>(i) * fontMetrics().height(),
                                   placed.bodyRect.width(), fontMetrics().height()),
                             Qt::AlignLeft | Qt::AlignVCenter, placed.lines[i]);
    }
    if (marked || (hasFocus() && index == m_current)) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(Theme::accent(), 2, marked ? Qt::SolidLine : Qt::DotLine));
        painter.drawRoundedRect(box.adjusted(-1.5, -1.5, 1.5, 1.5), 5, 5);
    }
}

} // namespace tpscope
