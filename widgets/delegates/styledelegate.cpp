// SPDX-License-Identifier: GPL-3.0-or-later
#include "delegates/styledelegate.h"

#include <QComboBox>
#include <QTimer>

#include "models/moduletreemodel.h"
#include "models/planinsight.h"
#include "style/theme.h"

namespace tpscope {

QWidget *StyleDelegate::createEditor(QWidget *parent, const QStyleOptionViewItem &, const QModelIndex &) const {
    auto *combo = new QComboBox(parent);
    combo->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    for (const Completion &style : styleCompletions()) {
        combo->addItem(style.text);
        combo->setItemData(combo->count() - 1, style.about, Qt::ToolTipRole);
    }
    auto *self = const_cast<StyleDelegate *>(this); // createEditor is const, its signals are not
    connect(combo, &QComboBox::activated, self, [self, combo] {
        emit self->commitData(combo);
        emit self->closeEditor(combo);
    });
    QTimer::singleShot(0, combo, &QComboBox::showPopup);
    return combo;
}

void StyleDelegate::setEditorData(QWidget *editor, const QModelIndex &index) const {
    auto *combo = qobject_cast<QComboBox *>(editor);
    combo->setCurrentIndex(combo->findText(index.data(Qt::EditRole).toString()));
}

void StyleDelegate::setModelData(QWidget *editor, QAbstractItemModel *model, const QModelIndex &index) const {
    const auto *combo = qobject_cast<QComboBox *>(editor);
    if (combo->currentIndex() >= 0)
        model->setData(index, combo->currentText(), Qt::EditRole);
}

void StyleDelegate::updateEditorGeometry(QWidget *editor, const QStyleOptionViewItem &option,
                                         const QModelIndex &) const {
    QRect place = option.rect;
    place.setWidth(std::max(place.width(), editor->sizeHint().width()));
    editor->setGeometry(place);
}

void StyleDelegate::initStyleOption(QStyleOptionViewItem *option, const QModelIndex &index) const {
    QStyledItemDelegate::initStyleOption(option, index);
    if (!index.data(ModuleTreeModel::InheritedRole).toBool() || option->text.isEmpty())
        return;
    option->font.setItalic(true);
    option->palette.setColor(QPalette::Text, Theme::subtleText());
}

} // namespace tpscope
