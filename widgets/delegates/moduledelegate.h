// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStyledItemDelegate>

namespace tpscope {

// Placement, hook and findings of a module row with the shape and colour of their meaning beside the words.
class ModuleDelegate : public QStyledItemDelegate {
    Q_OBJECT

public:
    using QStyledItemDelegate::QStyledItemDelegate;
    QSize sizeHint(const QStyleOptionViewItem &option, const QModelIndex &index) const override;

protected:
    void initStyleOption(QStyleOptionViewItem *option, const QModelIndex &index) const override;
};

// The severity column of a table of findings: SeverityRole gives 1 info, 2 warning, 3 error.
class SeverityDelegate : public QStyledItemDelegate {
    Q_OBJECT

public:
    SeverityDelegate(int severityRole, QObject *parent) : QStyledItemDelegate(parent), m_role(severityRole) {}

protected:
    void initStyleOption(QStyleOptionViewItem *option, const QModelIndex &index) const override;

private:
    int m_role;
};

} // namespace tpscope
