// SPDX-License-Identifier: GPL-3.0-or-later
#include "style/theme.h"

#include <QApplication>
#include <QCoreApplication>
#include <QStyleFactory>

#include <array>

namespace tpscope {
namespace {

struct Row {
    Meaning meaning;
    const char *light;
    const char *dark;
    const char *mark;
    const char *word;
};

// Okabe-Ito; where a hue is too pale on white or too dark on black, its lightness is shifted, never its hue.
constexpr std::array<Row, 13> rows{{
    {Meaning::Replicated, "#6F757B", "#9AA0A6", "\u25A1", QT_TRANSLATE_NOOP("Theme", "replicated")},
    {Meaning::ShardedRows, "#0072B2", "#4FA8DC", "\u25A4", QT_TRANSLATE_NOOP("Theme", "sharded on rows")},
    {Meaning::ShardedColumns, "#2479AE", "#56B4E9", "\u25A5", QT_TRANSLATE_NOOP("Theme", "sharded on columns")},
    {Meaning::Strided, "#007F5C", "#22B98B", "\u25A6", QT_TRANSLATE_NOOP("Theme", "strided")},
    {Meaning::Partial, "#A86E00", "#E69F00", "\u03A3", QT_TRANSLATE_NOOP("Theme", "partial sum")},
    {Meaning::Error, "#C24E00", "#F07B3A", "\u25B2", QT_TRANSLATE_NOOP("Theme", "error")},
    {Meaning::Hook, "#B0588C", "#CC79A7", "\u2693", QT_TRANSLATE_NOOP("Theme", "hook")},
    {Meaning::Collective, "#8A7D00", "#F0E442", "\u21C4", QT_TRANSLATE_NOOP("Theme", "collective")},
    {Meaning::Before, "#0072B2", "#4FA8DC", "A", QT_TRANSLATE_NOOP("Theme", "before")},
    {Meaning::After, "#0072B2", "#4FA8DC", "B", QT_TRANSLATE_NOOP("Theme", "after")},
    {Meaning::Warning, "#946200", "#E69F00", "\u25C6", QT_TRANSLATE_NOOP("Theme", "warning")},
    {Meaning::Good, "#007F5C", "#22B98B", "\u2713", QT_TRANSLATE_NOOP("Theme", "right")},
    {Meaning::Info, "#0072B2", "#4FA8DC", "\u25CF", QT_TRANSLATE_NOOP("Theme", "info")},
}};

const Row &rowOf(Meaning meaning) { return rows[static_cast<std::size_t>(meaning)]; }

} // namespace

QPalette Theme::palette(bool dark) {
    const QColor window = dark ? QColor("#2A2D31") : QColor("#F5F6F7");
    const QColor base = dark ? QColor("#1B1D1F") : QColor("#FFFFFF");
    const QColor text = dark ? QColor("#E4E6E8") : QColor("#1E2124");
    const QColor button = dark ? QColor("#3A3E44") : QColor("#E9EBED");
    const QColor disabled = dark ? QColor("#8B9197") : QColor("#8B9096");
    QPalette palette(text, button, button.lighter(120), button.darker(150), button.darker(115), text, Qt::white, base,
                     window);
    palette.setColor(QPalette::Highlight, dark ? QColor("#2F6EA5") : QColor("#1F6FB2"));
    palette.setColor(QPalette::HighlightedText, Qt::white);
    palette.setColor(QPalette::Link, dark ? QColor("#7CB8E8") : QColor("#1F6FB2"));
    palette.setColor(QPalette::LinkVisited, dark ? QColor("#B59CDB") : QColor("#6B4FA0"));
    palette.setColor(QPalette::AlternateBase, window);
    palette.setColor(QPalette::ToolTipBase, dark ? QColor("#2B2E32") : QColor("#FFFFFF"));
    palette.setColor(QPalette::ToolTipText, text);
    palette.setColor(QPalette::PlaceholderText, disabled);
    for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        palette.setColor(QPalette::Disabled, role, disabled);
    return palette;
}

void Theme::apply(ThemeKind kind) {
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    // What the desktop says is read once from the palette Qt started with; forced kinds ignore it.
    static const bool desktopIsDark = QApplication::palette().color(QPalette::Window).lightness() < 128;
    const bool dark = kind == ThemeKind::Dark || (kind == ThemeKind::System && desktopIsDark);
    QApplication::setPalette(palette(dark));
}

bool Theme::isDark() { return QApplication::palette().color(QPalette::Base).lightness() < 128; }

QColor Theme::color(Meaning meaning) { return QColor(isDark() ? rowOf(meaning).dark : rowOf(meaning).light); }

QString Theme::word(Meaning meaning) { return QCoreApplication::translate("Theme", rowOf(meaning).word); }

QString Theme::mark(Meaning meaning) { return QString::fromUtf8(rowOf(meaning).mark); }

QColor Theme::accent() { return QApplication::palette().color(QPalette::Highlight); }

QColor Theme::subtleText() { return QApplication::palette().color(QPalette::PlaceholderText); }

QColor Theme::grid() { return isDark() ? QColor("#34373B") : QColor("#DDE0E3"); }

} // namespace tpscope
