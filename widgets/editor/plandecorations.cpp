// SPDX-License-Identifier: GPL-3.0-or-later
#include "editor/plandecorations.h"

#include <QApplication>
#include <QFontMetrics>
#include <QPainter>
#include <Qsci/qscilexer.h>
#include <Qsci/qsciscintilla.h>
#include <Qsci/qscistyle.h>

#include <algorithm>
#include <map>

#include "models/planinsight.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr int firstIndicator = 8; // below: lexers' own
constexpr int firstStyle = 40;    // above the lexer's and Scintilla's predefined ones
constexpr int ruleStyle = firstStyle + 3;
constexpr int mostAnnotationLines = 4;
constexpr std::size_t mostFindingsOfALine = 2;

constexpr Severity severities[] = {Severity::Error, Severity::Warning, Severity::Info};

QString tr(const char *text) { return QCoreApplication::translate("PlanEditor", text); }

Meaning meaningOf(Severity severity) {
    switch (severity) {
    case Severity::Error: return Meaning::Error;
    case Severity::Warning: return Meaning::Warning;
    case Severity::Info: return Meaning::Info;
    }
    return Meaning::Info;
}

// Without a device pixel ratio: Scintilla centres a marker by the pixels of its picture.
QPixmap markPixmap(Severity severity, const QFont &font) {
    const int size = QFontMetrics(font).height();
    QPixmap pixmap(size, size);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    painter.setFont(font);
    painter.setPen(Theme::color(meaningOf(severity)));
    painter.drawText(QRect(0, 0, size, size), Qt::AlignCenter, Theme::mark(meaningOf(severity)));
    return pixmap;
}

// A tint of the base colour: readable text on it, and a shape and the code stand before the words.
QColor tint(Severity severity, const QColor &base) {
    const QColor color = Theme::color(meaningOf(severity));
    const double share = Theme::isDark() ? 0.16 : 0.10;
    const auto mix = [&](int a, int b) { return static_cast<int>(a * share + b * (1 - share)); };
    return QColor(mix(color.red(), base.red()), mix(color.green(), base.green()), mix(color.blue(), base.blue()));
}

} // namespace

void PlanDecorations::defineStyles() {
    const QFont font = m_editor.lexer() ? m_editor.lexer()->defaultFont() : m_editor.font();
    const QPalette palette = QApplication::palette();
    for (std::size_t i = 0; i < std::size(severities); ++i) {
        const int indicator = firstIndicator + static_cast<int>(i);
        const QColor color = Theme::color(meaningOf(severities[i]));
        m_editor.indicatorDefine(severities[i] == Severity::Info ? QsciScintilla::DotsIndicator
                                                                 : QsciScintilla::SquiggleIndicator,
                                 indicator);
        m_editor.setIndicatorForegroundColor(color, indicator);
        m_editor.setIndicatorDrawUnder(true, indicator);
        m_editor.markerDefine(markPixmap(severities[i], font), static_cast<int>(i));
        QsciStyle(firstStyle + static_cast<int>(i), QStringLiteral("finding"), color,
                  tint(severities[i], palette.color(QPalette::Base)), font)
            .apply(&m_editor);
    }
    QsciStyle(ruleStyle, QStringLiteral("rule"), Theme::subtleText(), palette.color(QPalette::Window), font)
        .apply(&m_editor);
}

SourceSpan PlanDecorations::bytesOf(const Diagnostic &finding) const {
    if (finding.span.length > 0)
        return finding.span;
    using Base = QsciScintillaBase;
    SourceSpan span = finding.span;
    const long line = std::min<long>(span.line - 1, m_editor.lines() - 1);
    const long start = m_editor.SendScintilla(Base::SCI_POSITIONFROMLINE, static_cast<unsigned long>(line));
    const long end = m_editor.SendScintilla(Base::SCI_GETLINEENDPOSITION, static_cast<unsigned long>(line));
    long at = start;
    for (int column = 1; column < span.column && at < end; ++column)
        at = m_editor.SendScintilla(Base::SCI_POSITIONAFTER, static_cast<unsigned long>(at));
    span.offset = static_cast<std::size_t>(at < end ? at : std::max(start, end - 1));
    span.length = static_cast<std::size_t>(std::max(1L, end - static_cast<long>(span.offset)));
    return span;
}

void PlanDecorations::squiggle(const Diagnostic &finding) {
    const SourceSpan span = bytesOf(finding);
    const long length = m_editor.length();
    if (static_cast<long>(span.offset) >= length)
        return;
    m_editor.SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT,
                           static_cast<unsigned long>(firstIndicator + static_cast<int>(finding.severity)));
    m_editor.SendScintilla(QsciScintillaBase::SCI_INDICATORFILLRANGE, span.offset,
                           std::min<long>(static_cast<long>(span.length), length - static_cast<long>(span.offset)));
}

void PlanDecorations::show(const std::vector<Diagnostic> &findings) {
    for (int i = 0; i < static_cast<int>(std::size(severities)); ++i) {
        m_editor.SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT,
                               static_cast<unsigned long>(firstIndicator + i));
        m_editor.SendScintilla(QsciScintillaBase::SCI_INDICATORCLEARRANGE, 0UL, static_cast<long>(m_editor.length()));
    }
    m_editor.markerDeleteAll();
    std::map<int, int> worst; // by line: one mark a line
    for (const Diagnostic &finding : findings) {
        if (!finding.span.valid())
            continue;
        squiggle(finding);
        const auto [place, added] = worst.try_emplace(finding.span.line, static_cast<int>(finding.severity));
        place->second = std::min(place->second, static_cast<int>(finding.severity));
    }
    for (const auto &[line, severity] : worst)
        m_editor.markerAdd(line - 1, severity);
    annotate(findings);
}

void PlanDecorations::annotate(const std::vector<Diagnostic> &findings) {
    std::map<int, std::vector<const Diagnostic *>> byLine;
    for (const Diagnostic &finding : findings)
        if (finding.span.valid())
            byLine[std::min(finding.span.line, m_editor.lines())].push_back(&finding);
    m_editor.clearAnnotations();
    for (const auto &[line, here] : byLine) {
        QStringList texts;
        for (const Diagnostic *finding : here) {
            if (texts.size() == static_cast<qsizetype>(mostFindingsOfALine)) {
                texts << tr("  and %1 more, see Findings").arg(here.size() - mostFindingsOfALine);
                break;
            }
            QString text =
                wrapped(QStringLiteral("%1 %2 %3")
                            .arg(Theme::mark(meaningOf(finding->severity)), QString::fromStdString(finding->code),
                                 QString::fromStdString(finding->message)),
                        QStringLiteral("    "), mostAnnotationLines);
            if (finding->fix && !finding->fix->edits.empty())
                text +=
                    QLatin1Char('\n') + wrapped(tr("  Alt+Enter: %1").arg(QString::fromStdString(finding->fix->title)),
                                                QStringLiteral("    "), 2);
            texts << text;
        }
        m_editor.annotate(line - 1, texts.join(QLatin1Char('\n')),
                          firstStyle + static_cast<int>(here.front()->severity));
    }
}

// Scintilla does not wrap annotations, so lines are cut to what fits beside the margins.
QString PlanDecorations::wrapped(const QString &text, const QString &indent, int mostLines) const {
    const QFont font = m_editor.lexer() ? m_editor.lexer()->defaultFont() : m_editor.font();
    const int margins =
        m_editor.marginWidth(NumberMargin) + m_editor.marginWidth(MarkMargin) + m_editor.marginWidth(RuleMargin);
    const int pixels = m_editor.viewport()->width() - margins - 12;
    const int width = std::max(24, pixels / std::max(1, QFontMetrics(font).horizontalAdvance(QLatin1Char('0'))));
    QStringList lines;
    QString line;
    for (const QString &word : text.split(QLatin1Char(' '))) {
        if (!line.isEmpty() && line.size() + 1 + word.size() > width) {
            lines << line;
            line = indent + word;
        } else {
            line += line.isEmpty() && lines.isEmpty() ? word : QLatin1Char(' ') + word;
        }
    }
    lines << line;
    if (lines.size() > mostLines) {
        lines.resize(mostLines);
        lines.back() = lines.back().left(width - 2) + QStringLiteral(" \u2026");
    }
    return lines.join(QLatin1Char('\n'));
}

void PlanDecorations::showRules(const PlanAnalysis &analysis) {
    std::map<int, tpscope::RuleMargin> margins; // by line
    qsizetype countWidth = 0;
    qsizetype bytesWidth = 0;
    for (const EffectiveRule &rule : analysis.plan.rules) {
        const int line = rule.rule.keySpan.line;
        if (rule.rule.origin != RuleOrigin::File || line < 1 || line > m_editor.lines())
            continue;
        const tpscope::RuleMargin margin = margins[line] = ruleMargin(analysis, rule);
        countWidth = std::max(countWidth, margin.bytes.isEmpty() ? 0 : margin.count.size());
        bytesWidth = std::max(bytesWidth, margin.bytes.size());
    }
    m_editor.clearMarginText();
    const QFont font = m_editor.lexer() ? m_editor.lexer()->defaultFont() : m_editor.font();
    int widest = 0;
    for (const auto &[line, margin] : margins) {
        const QString text = margin.bytes.isEmpty() ? QStringLiteral(" %1 ").arg(margin.count)
                                                    : QStringLiteral(" %1  %2 ")
                                                          .arg(margin.count.rightJustified(countWidth),
                                                               margin.bytes.rightJustified(bytesWidth));
        widest = std::max(widest, QFontMetrics(font).horizontalAdvance(text));
        m_editor.setMarginText(line - 1, text, ruleStyle);
    }
    m_editor.setMarginWidth(RuleMargin, widest > 0 ? widest + 4 : 0);
}

} // namespace tpscope
