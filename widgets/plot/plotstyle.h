// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QString>
#include <vector>

class QCPAxis;
class QCPAxisRect;
class QCustomPlot;
class QWidget;

namespace tpscope {

// Colours and fonts of the theme for a plot: background, axes, grid, labels. Call again when the palette changes.
void applyTheme(QCustomPlot &plot);
void applyTheme(QCPAxisRect &rect);

// By span colour (plot/timelinelanes.h).
std::vector<QColor> timelineColors();
QColor mixed(const QColor &a, const QColor &b, double shareOfB);
// Black or white, whichever is read better on a colour (WCAG relative luminance).
QColor textOn(const QColor &background);

// Writes what a widget shows, `scale` times as sharp, atomically. False when the file cannot be written.
bool saveWidgetPng(QWidget &widget, const QString &file, double scale);

} // namespace tpscope
