// SPDX-License-Identifier: GPL-3.0-or-later
#include "delegates/moduledelegate.h"

#include "models/moduletreemodel.h"
#include "shard/shardlayout.h"
#include "style/theme.h"

namespace tpscope {
namespace {

Meaning meaningOf(int severity) {
    return severity >= 3 ? Meaning::Error : severity == 2 ? Meaning::Warning : Meaning::Info;
}

Meaning placementMeaning(const QModelIndex &index) {
    switch (static_cast<PlacementKind>(index.data(ModuleTreeModel::MeaningRole).toInt())) {
    case PlacementKind::StridedShard: return Meaning::Strided;
    case PlacementKind::Shard:
        return index.data(ModuleTreeModel::ShardDimRole).toInt() == 0 ? Meaning::ShardedRows : Meaning::ShardedColumns;
    case PlacementKind::PlainTensor:
    case PlacementKind::Replicate: break;
    }
    return Meaning::Replicated;
}

void mark(QStyleOptionViewItem &option, Meaning meaning, const QString &text) {
    option.text = text.isEmpty() ? Theme::mark(meaning) : Theme::mark(meaning) + QLatin1Char(' ') + text;
    option.palette.setColor(QPalette::Text, Theme::color(meaning));
}

} // namespace

QSize ModuleDelegate::sizeHint(const QStyleOptionViewItem &option, const QModelIndex &index) const {
    return QStyledItemDelegate::sizeHint(option, index) + QSize(0, 4); // air between the rows
}

void ModuleDelegate::initStyleOption(QStyleOptionViewItem *option, const QModelIndex &index) const {
    QStyledItemDelegate::initStyleOption(option, index);
    const int severity = index.data(ModuleTreeModel::SeverityRole).toInt();
    switch (index.column()) {
    case ModuleTreeModel::NameColumn:
        if (severity > 0)
            mark(*option, meaningOf(severity), option->text);
        break;
    case ModuleTreeModel::PlacementColumn:
        if (!option->text.isEmpty())
            mark(*option, placementMeaning(index), option->text);
        break;
    case ModuleTreeModel::HookColumn:
        if (!option->text.isEmpty())
            mark(*option, Meaning::Hook, option->text);
        break;
    case ModuleTreeModel::FindingsColumn:
        if (severity > 0 && index.data(ModuleTreeModel::OwnFindingsRole).toInt() > 0)
            mark(*option, meaningOf(severity), option->text);
        break;
    default: break;
    }
}

void SeverityDelegate::initStyleOption(QStyleOptionViewItem *option, const QModelIndex &index) const {
    QStyledItemDelegate::initStyleOption(option, index);
    option->palette.setColor(QPalette::Text, Theme::color(meaningOf(index.data(m_role).toInt())));
}

} // namespace tpscope
