// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QIcon>
#include <QString>

namespace tpscope {

// resources/icons/<name>.svg in the text colour of the palette in force, disabled ones paler; empty when there is no
// such file. Call again after the theme changed. GUI thread.
QIcon themedIcon(const QString &name);
QIcon themedIcon(const QString &name, const QColor &color);

} // namespace tpscope
