// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runsmodel.h"

#include <utility>

#include "base/summary.h"

namespace tpscope {
namespace {

QString milliseconds(double value) { return QString::number(value, 'f', 2); }

QString resultText(const RunEntry &entry) {
    if (entry.comparison)
        return RunsModel::tr("%1 \u2192 %2 ms a token, %3")
            .arg(milliseconds(entry.comparison->beforeMs.median), milliseconds(entry.comparison->afterMs.median),
                 QString::fromStdString(std::string(name(entry.comparison->verdict))));
    if (entry.trace && !entry.trace->tokenMs.empty())
        return RunsModel::tr("%1 ms a token").arg(milliseconds(summarize(entry.trace->tokenMs).median));
    return entry.message;
}

// A shape and a word, never a colour alone.
QString stateText(const RunEntry &entry) {
    static const std::pair<QLatin1String, const char *> texts[] = {
        {QLatin1String("running"), QT_TR_NOOP("\u25B6 running")},
        {QLatin1String("done"), QT_TR_NOOP("\u2713 done")},
        {QLatin1String("failed"), QT_TR_NOOP("\u25B2 failed")},
        {QLatin1String("cancelled"), QT_TR_NOOP("\u25A0 stopped")},
        {QLatin1String("recorded"), QT_TR_NOOP("\u25CF recorded")}};
    for (const auto &[state, text] : texts)
        if (entry.state == state)
            return state == QLatin1String("running") && entry.fraction >= 0
                       ? RunsModel::tr("%1 %2 %").arg(RunsModel::tr(text)).arg(qRound(entry.fraction * 100))
                       : RunsModel::tr(text);
    return entry.state;
}

QString sourceText(const RunEntry &entry) {
    if (entry.comparison)
        return QString::fromStdString(std::string(name(entry.comparison->after.source)));
    return entry.trace ? QString::fromStdString(std::string(name(entry.trace->source))) : QString();
}

} // namespace

RunsModel::RunsModel(const RunStore &store, QObject *parent) : TableModel(parent), m_store(store) {
    connect(&store, &RunStore::entryAdded, this, &RunsModel::reload);
    connect(&store, &RunStore::entryChanged, this, &RunsModel::reload);
    reload();
}

void RunsModel::reload() {
    std::vector<RunEntry> rows(m_store.entries().rbegin(), m_store.entries().rend());
    // A change of one row is told as that, so that selections survive.
    if (rows.size() == m_rows.size() && !rows.empty()) {
        m_rows = std::move(rows);
        emit dataChanged(index(0, 0), index(static_cast<int>(m_rows.size()) - 1, columnCount() - 1));
        return;
    }
    setRows(std::move(rows));
}

QVariant RunsModel::cell(const RunEntry &row, int column, int role) const {
    if (role == IdRole)
        return row.id;
    if (role == Qt::ToolTipRole)
        return row.message.isEmpty() ? row.title : row.message;
    if (role != Qt::DisplayRole)
        return {};
    switch (column) {
    case TitleColumn: return row.title;
    case StateColumn: return stateText(row);
    case ResultColumn: return resultText(row);
    case SourceColumn: return sourceText(row);
    default: return {};
    }
}

QVariant RunsModel::header(int column, int role) const {
    if (role != Qt::DisplayRole)
        return {};
    static const char *const titles[] = {QT_TR_NOOP("Run"), QT_TR_NOOP("State"), QT_TR_NOOP("Result"),
                                         QT_TR_NOOP("Source")};
    return tr(titles[column]);
}

} // namespace tpscope
