// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/modelview.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QShortcut>
#include <QSortFilterProxyModel>
#include <QSpinBox>
#include <QTreeView>
#include <QVBoxLayout>

#include "delegates/moduledelegate.h"
#include "delegates/styledelegate.h"
#include "models/moduletreemodel.h"
#include "models/planworkbench.h"
#include "models/selection.h"

namespace tpscope {

// Rows whose full name or style contains the words, with everything above them.
class ModuleFilter : public QSortFilterProxyModel {
public:
    explicit ModuleFilter(QObject *parent) : QSortFilterProxyModel(parent) { setRecursiveFilteringEnabled(true); }
    void setText(const QString &text) {
        m_text = text.trimmed();
        invalidateFilter();
    }

protected:
    bool filterAcceptsRow(int row, const QModelIndex &parent) const override {
        const QModelIndex name = sourceModel()->index(row, ModuleTreeModel::NameColumn, parent);
        const QModelIndex style = sourceModel()->index(row, ModuleTreeModel::StyleColumn, parent);
        return m_text.isEmpty() ||
               name.data(ModuleTreeModel::ModuleNameRole).toString().contains(m_text, Qt::CaseInsensitive) ||
               style.data().toString().contains(m_text, Qt::CaseInsensitive);
    }

private:
    QString m_text;
};

ModelView::ModelView(PlanWorkbench *workbench, Selection *selection, QWidget *parent)
    : QWidget(parent), m_workbench(workbench), m_selection(selection), m_model(new ModuleTreeModel(this)),
      m_filter(new ModuleFilter(this)), m_search(new QLineEdit), m_rank(new QSpinBox), m_tree(new QTreeView) {
    m_search->setPlaceholderText(tr("Search modules and styles"));
    m_search->setClearButtonEnabled(true);
    m_rank->setPrefix(tr("rank "));
    m_rank->setRange(0, 0);
    m_rank->setToolTip(tr("The rank whose shapes and bytes are shown"));
    auto *line = new QHBoxLayout;
    line->addWidget(m_search, 1);
    line->addWidget(m_rank);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 0);
    layout->setSpacing(4);
    layout->addLayout(line);
    layout->addWidget(m_tree, 1);
    buildTree();

    connect(m_search, &QLineEdit::textChanged, this, [this](const QString &text) {
        m_filter->setText(text);
        if (!text.isEmpty())
            m_tree->expandAll();
    });
    connect(m_rank, &QSpinBox::valueChanged, this, [this](int rank) {
        m_model->setRank(rank);
        m_selection->selectRank(rank);
    });
    connect(selection, &Selection::rankSelected, m_rank, &QSpinBox::setValue);
    connect(selection, &Selection::moduleSelected, this, &ModelView::showSelected);
    connect(workbench, &PlanWorkbench::analysisChanged, this, &ModelView::showAnalysis);
    connect(m_model, &ModuleTreeModel::styleChosen, this, &ModelView::styleChosen);
    connect(m_model, &QAbstractItemModel::modelReset, this, &ModelView::openUseful);
}

void ModelView::buildTree() {
    m_filter->setSourceModel(m_model);
    m_tree->setModel(m_filter);
    m_tree->setUniformRowHeights(true);
    m_tree->setAlternatingRowColors(true);
    m_tree->setIndentation(11);
    m_tree->setFrameShape(QFrame::NoFrame);
    m_tree->setAccessibleName(tr("Modules"));
    m_tree->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed |
                            QAbstractItemView::SelectedClicked);
    m_tree->setItemDelegate(new ModuleDelegate(m_tree));
    m_tree->setItemDelegateForColumn(ModuleTreeModel::StyleColumn, new StyleDelegate(m_tree));
    m_tree->header()->setStretchLastSection(false);
    // From any column: only the style can be edited.
    auto *edit = new QShortcut(Qt::Key_F2, m_tree, nullptr, nullptr, Qt::WidgetShortcut);
    connect(edit, &QShortcut::activated, this, [this] {
        const QModelIndex style = m_tree->currentIndex().siblingAtColumn(ModuleTreeModel::StyleColumn);
        if (!(style.flags() & Qt::ItemIsEditable))
            return;
        m_tree->scrollTo(style);
        m_tree->edit(style);
    });
    const int widths[] = {160, 130, 84, 112, 104, 112, 64};
    for (int column = 0; column < ModuleTreeModel::ColumnCount; ++column)
        m_tree->setColumnWidth(column, widths[column]);
    connect(m_tree->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex &current) {
                if (!m_following && current.isValid())
                    m_selection->selectModule(current.data(ModuleTreeModel::ModuleNameRole).toString());
            });
}

void ModelView::showAnalysis() {
    const auto analysis = m_workbench->analysis();
    // While a text cannot be read for a moment the tree keeps showing the last one that could.
    if (!analysis || (analysis->unreadable && m_model->rowCount() > 0))
        return;
    m_rank->setRange(0, std::max(analysis->tp, 1) - 1);
    m_rank->setSuffix(tr(" of %1").arg(analysis->tp));
    m_model->setAnalysis(analysis);
}

// Opened down to the layers' own modules: what plans speak of.
void ModelView::openUseful() {
    m_tree->expandToDepth(1);
    const QModelIndex layers = m_filter->mapFromSource(m_model->indexOfModule(QStringLiteral("model.layers")));
    if (layers.isValid() && m_filter->rowCount(layers) > 0)
        m_tree->expandRecursively(m_filter->index(0, 0, layers));
    showSelected(m_selection->module());
}

void ModelView::showSelected(const QString &module) {
    const QModelIndex index = m_filter->mapFromSource(m_model->indexOfModule(module));
    if (!index.isValid() || index.row() == m_tree->currentIndex().row())
        if (!index.isValid() || index.parent() == m_tree->currentIndex().parent())
            return;
    m_following = true;
    m_tree->setCurrentIndex(index);
    m_tree->scrollTo(index);
    m_following = false;
}

void ModelView::refreshTheme() { m_tree->viewport()->update(); }

} // namespace tpscope
