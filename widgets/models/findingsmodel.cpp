// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/findingsmodel.h"

namespace tpscope {
namespace {

int weight(Severity severity) {
    return severity == Severity::Error ? 3 : severity == Severity::Warning ? 2 : 1;
}

QString severityText(Severity severity) {
    switch (severity) {
    case Severity::Error: return FindingsModel::tr("\u25B2 error");
    case Severity::Warning: return FindingsModel::tr("\u25C6 warning");
    case Severity::Info: return FindingsModel::tr("\u25CF info");
    }
    return {};
}

} // namespace

QVariant FindingsModel::cell(const Diagnostic &row, int column, int role) const {
    if (role == SeverityRole)
        return weight(row.severity);
    if (role == Qt::ToolTipRole && column == LineColumn && !row.span.valid())
        return tr("It is about a rule that is inherited, or about one that is missing.");
    if (role == Qt::ToolTipRole) // rich text, so that it wraps
        return QStringLiteral("<qt>%1</qt>")
            .arg(QString::fromStdString(column == FixColumn && row.fix ? row.fix->title : row.message).toHtmlEscaped());
    if (role == Qt::TextAlignmentRole)
        return int((column == LineColumn ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    if (role != Qt::DisplayRole && role != SortRole)
        return {};
    switch (column) {
    case SeverityColumn: return role == SortRole ? QVariant(weight(row.severity)) : severityText(row.severity);
    case CodeColumn: return QString::fromStdString(row.code);
    case LineColumn:
        if (role == SortRole)
            return row.span.line;
        return row.span.valid() ? QString::number(row.span.line) : tr("no line");
    case MessageColumn: return QString::fromStdString(row.message);
    case FixColumn: return row.fix ? QString::fromStdString(row.fix->title) : QString();
    default: return {};
    }
}

QVariant FindingsModel::header(int column, int role) const {
    if (role != Qt::DisplayRole)
        return {};
    static const char *const titles[] = {QT_TR_NOOP("Severity"), QT_TR_NOOP("Code"), QT_TR_NOOP("Line"),
                                         QT_TR_NOOP("What and why"), QT_TR_NOOP("Fix")};
    return tr(titles[column]);
}

} // namespace tpscope
