// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/countertiles.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

#include "style/theme.h"

namespace tpscope {

QString beforeAfter(const QString &before, const QString &after) {
    const QString dash = QStringLiteral("\u2013");
    const QString left = before.isEmpty() ? dash : before;
    const QString right = after.isEmpty() ? dash : after;
    return left + QStringLiteral(" \u2192 ") + right;
}

CounterTiles::CounterTiles(QWidget *parent) : QWidget(parent) {
    auto *row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
}

CounterTiles::Cell CounterTiles::addCell() {
    Cell cell;
    cell.frame = new QFrame;
    cell.frame->setFrameShape(QFrame::StyledPanel);
    cell.frame->setAutoFillBackground(true);
    cell.frame->setBackgroundRole(QPalette::Base);
    auto *column = new QVBoxLayout(cell.frame);
    column->setContentsMargins(10, 6, 10, 6);
    column->setSpacing(0);
    for (QLabel **label : {&cell.caption, &cell.value, &cell.source, &cell.second}) {
        *label = new QLabel;
        (*label)->setTextFormat(Qt::PlainText);
        (*label)->setTextInteractionFlags(Qt::TextSelectableByMouse);
        column->addWidget(*label);
    }
    // Words may wrap in a narrow window; the number keeps its room.
    for (QLabel *label : {cell.caption, cell.source, cell.second}) {
        label->setWordWrap(true);
        label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    }
    QFont large = font();
    large.setPointSizeF(large.pointSizeF() * 1.5);
    large.setBold(true);
    cell.value->setFont(large);
    column->addStretch();
    static_cast<QHBoxLayout *>(layout())->addWidget(cell.frame, 1);
    return cell;
}

void CounterTiles::setTiles(const std::vector<CounterTile> &tiles) {
    if (tiles == m_tiles)
        return;
    m_tiles = tiles;
    while (m_cells.size() < tiles.size())
        m_cells.push_back(addCell());
    for (std::size_t i = 0; i < m_cells.size(); ++i) {
        const Cell &cell = m_cells[i];
        cell.frame->setVisible(i < tiles.size());
        if (i >= tiles.size())
            continue;
        cell.caption->setText(tiles[i].caption);
        cell.value->setText(tiles[i].value);
        cell.source->setText(tiles[i].source);
        cell.second->setText(tiles[i].second);
        cell.second->setVisible(!tiles[i].second.isEmpty());
        cell.frame->setAccessibleName(tiles[i].caption + ' ' + tiles[i].value + ' ' + tiles[i].source);
    }
    applyColors();
}

void CounterTiles::changeEvent(QEvent *event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        applyColors();
}

void CounterTiles::applyColors() {
    for (const Cell &cell : m_cells)
        for (QLabel *label : {cell.caption, cell.source, cell.second}) {
            QPalette pale = palette();
            for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text}) // as the frame has it
                pale.setColor(role, Theme::subtleText());
            label->setPalette(pale);
        }
}

} // namespace tpscope
