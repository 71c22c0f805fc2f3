// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractItemModel>
#include <memory>

#include "session/workspace.h"

namespace tpscope {

// The modules of a model in call order with what the plan does to each; runs of identical layers are one row
// ("0-35 x36"), whose children stand for all of them. Reads one immutable analysis. Choosing a style (setData in the
// style column) changes nothing here: it asks for an edit of the plan's text.
class ModuleTreeModel : public QAbstractItemModel {
    Q_OBJECT

public:
    enum Columns { NameColumn, StyleColumn, PlacementColumn, ShapeColumn, BytesColumn, HookColumn, FindingsColumn,
                   ColumnCount };
    enum Roles {
        SortRole = Qt::UserRole, // numbers as numbers
        ModuleNameRole,          // full name, "*" for the numbers of a fold: what Selection speaks
        RuleKeyRole,             // the key a style chosen here is written under
        SeverityRole,            // 0 none, 1 info, 2 warning, 3 error: the worst of the row and everything below it
        MeaningRole,             // int of PlacementKind; -1 no parameter
        FoldCountRole,           // how many identical layers the row stands for
        ShardDimRole,            // dimension that is split, -1 whole
        InheritedRole,           // true: the style comes from the built-in plan, not from the text
        OwnFindingsRole,         // findings of the row itself, not of those below
    };

    explicit ModuleTreeModel(QObject *parent = nullptr);
    ~ModuleTreeModel() override;

    void setAnalysis(std::shared_ptr<const PlanAnalysis> analysis);
    void setRank(int rank); // whose shapes and bytes are shown

    // The row of a module name as Selection speaks it, or of the fold that stands for it; invalid when there is none.
    QModelIndex indexOfModule(const QString &name) const;

    QModelIndex index(int row, int column, const QModelIndex &parent = {}) const override;
    QModelIndex parent(const QModelIndex &child) const override;
    int rowCount(const QModelIndex &parent = {}) const override;
    int columnCount(const QModelIndex &parent = {}) const override;
    QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex &index) const override;
    bool setData(const QModelIndex &index, const QVariant &value, int role = Qt::EditRole) override;

signals:
    // The rule for this key shall have this style; whoever owns the text edits it.
    void styleChosen(const QString &key, const QString &style);

private:
    struct Node;
    const Node *nodeOf(const QModelIndex &index) const;
    void announceChange(const QModelIndex &parent);
    std::unique_ptr<Node> m_root;
    std::shared_ptr<const PlanAnalysis> m_analysis;
    int m_rank = 0;
};

} // namespace tpscope
