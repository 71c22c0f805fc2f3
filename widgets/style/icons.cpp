// SPDX-License-Identifier: GPL-3.0-or-later
#include "style/icons.h"

#include <QApplication>
#include <QFile>
#include <QPainter>
#include <QPalette>
#include <QSvgRenderer>

#include "base/resources.h"

namespace tpscope {
namespace {

QPixmap drawn(QByteArray svg, const QColor &color, int size) {
    svg.replace("currentColor", color.name().toLatin1());
    QSvgRenderer renderer(svg);
    QPixmap pixmap(size, size);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    renderer.render(&painter);
    return pixmap;
}

} // namespace

QIcon themedIcon(const QString &name, const QColor &color) {
    QFile file(QString::fromStdString((resourceDir() / "icons").string()) + QLatin1Char('/') + name +
               QStringLiteral(".svg"));
    if (!file.open(QIODevice::ReadOnly))
        return {};
    const QByteArray svg = file.readAll();
    const QColor pale = QApplication::palette().color(QPalette::Disabled, QPalette::WindowText);
    QIcon icon;
    for (const int size : {16, 20, 24, 32, 48, 96}) {
        icon.addPixmap(drawn(svg, color, size), QIcon::Normal);
        icon.addPixmap(drawn(svg, pale, size), QIcon::Disabled);
    }
    return icon;
}

QIcon themedIcon(const QString &name) { return themedIcon(name, QApplication::palette().color(QPalette::WindowText)); }

} // namespace tpscope
