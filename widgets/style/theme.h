// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QPalette>
#include <QString>

namespace tpscope {

// Colours with one meaning everywhere, from the Okabe-Ito set; always shown with a shape or word beside them.
enum class Meaning {
    Replicated, ShardedRows, ShardedColumns, Strided, Partial, Error, Hook, Collective, Before, After,
    Warning, Good, Info
};

enum class ThemeKind { System, Light, Dark };

// Fusion with a palette of our own. GUI thread.
class Theme {
public:
    static void apply(ThemeKind kind); // to the application; System follows the desktop's palette
    static bool isDark();              // of the palette that is in force
    static QPalette palette(bool dark);
    static QColor color(Meaning meaning); // readable on the current base colour
    static QString word(Meaning meaning); // "replicated", "sharded on rows", ...
    static QString mark(Meaning meaning); // a character of the fonts we ship: outline, cut, sigma ...
    static QColor accent();
    static QColor subtleText();
    static QColor grid();
};

} // namespace tpscope
