// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <set>
#include <vector>

#include "plot/graphlayout.h"

namespace tpscope {

// Draws sections of graphs, breaks and hooks (plot/graphlayout.h) and tells which item was chosen: by click, or with
// the arrow keys and Enter. As high as its width needs. GUI thread.
class GraphCanvas : public QWidget {
    Q_OBJECT

public:
    explicit GraphCanvas(QWidget *parent = nullptr);

    void setSections(std::vector<GraphSection> sections);
    const std::vector<GraphSection> &sections() const { return m_sections; }
    // Items of this module, breaks included, get a border; returns where the first of them is.
    QRect highlight(const QString &module);
    const GraphLayout &layout() const { return m_layout; }
    const GraphItem &itemOf(const PlacedItem &placed) const;

    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {240, 80}; }

signals:
    void chosen(int section, const tpscope::GraphItem &item);
    void currentMoved(const QRect &rect); // the keyboard moved; scroll there

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    bool event(QEvent *event) override;

private:
    TextMeasure measure() const;
    void relayout();
    void choose(int index);
    QString notesOf(std::size_t section) const;
    void drawSection(QPainter &painter, std::size_t index) const;
    void drawItem(QPainter &painter, int index) const;
    void drawBreak(QPainter &painter, const QRect &rect, const GraphItem &item) const;

    std::vector<GraphSection> m_sections;
    GraphLayout m_layout;
    QString m_highlighted;
    int m_current = -1; // of the keyboard
};

} // namespace tpscope
