// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/plotstyle.h"

#include <QApplication>
#include <QImage>
#include <QPainter>
#include <QPalette>
#include <QSaveFile>
#include <QWidget>
#include <cmath>
#include <qcustomplot.h>

#include "plot/timelinelanes.h"
#include "style/theme.h"

namespace tpscope {
namespace {

void applyTheme(QCPAxis &axis, const QFont &font) {
    const QPalette palette = QApplication::palette();
    const QColor line = Theme::subtleText();
    axis.setBasePen(QPen(line));
    axis.setTickPen(QPen(line));
    axis.setSubTickPen(QPen(Theme::grid()));
    axis.setTickLabelColor(palette.color(QPalette::Text));
    axis.setLabelColor(palette.color(QPalette::Text));
    axis.setTickLabelFont(font);
    axis.setLabelFont(font);
    axis.grid()->setPen(QPen(Theme::grid(), 1));
    axis.grid()->setZeroLinePen(QPen(Theme::grid(), 1));
    axis.grid()->setSubGridVisible(false);
}

} // namespace

void applyTheme(QCPAxisRect &rect) {
    QFont font = QApplication::font();
    for (QCPAxis *axis : rect.axes())
        applyTheme(*axis, font);
}

void applyTheme(QCustomPlot &plot) {
    plot.setBackground(QBrush(QApplication::palette().color(QPalette::Base)));
    for (QCPAxisRect *rect : plot.axisRects())
        applyTheme(*rect);
}

QColor mixed(const QColor &a, const QColor &b, double share) {
    const auto part = [share](int x, int y) { return static_cast<int>(std::lround(x + (y - x) * share)); };
    return {part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue())};
}

QColor textOn(const QColor &background) {
    const auto linear = [](double part) {
        return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
    };
    const double luminance = 0.2126 * linear(background.redF()) + 0.7152 * linear(background.greenF()) +
                             0.0722 * linear(background.blueF());
    return luminance > 0.179 ? Qt::black : Qt::white; // equal contrast with both
}

std::vector<QColor> timelineColors() {
    const QPalette palette = QApplication::palette();
    const QColor base = palette.color(QPalette::Base);
    const QColor text = palette.color(QPalette::Text);
    std::vector<QColor> colors(spanColorCount);
    const auto set = [&](LaneKind kind, const QColor &color) { colors[static_cast<std::size_t>(kind)] = color; };
    set(LaneKind::Tokens, mixed(base, Theme::color(Meaning::Before), 0.75));
    set(LaneKind::Launches, mixed(base, text, 0.75));
    set(LaneKind::Compute, mixed(base, text, 0.45));
    set(LaneKind::Collectives, mixed(base, Theme::color(Meaning::Collective), 0.75));
    set(LaneKind::Hooks, Theme::color(Meaning::Hook));
    colors[oddTokenColor] = mixed(base, Theme::color(Meaning::Before), 0.45);
    return colors;
}

bool saveWidgetPng(QWidget &widget, const QString &file, double scale) {
    if (widget.size().isEmpty())
        return false;
    QImage image((QSizeF(widget.size()) * scale).toSize(), QImage::Format_RGB32);
    image.setDevicePixelRatio(scale);
    image.fill(widget.palette().color(QPalette::Window));
    widget.render(&image);
    QSaveFile out(file);
    return out.open(QIODevice::WriteOnly) && image.save(&out, "PNG") && out.commit();
}

} // namespace tpscope
