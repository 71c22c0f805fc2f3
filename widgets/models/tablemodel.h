// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <vector>

namespace tpscope {

// A read-only table over a vector of plain rows: index, parent, rowCount fixed once. A subclass says the columns and
// the data of one row.
template <typename Row, int Columns> class TableModel : public QAbstractTableModel {
public:
    using QAbstractTableModel::QAbstractTableModel;

    void setRows(std::vector<Row> rows) {
        beginResetModel();
        m_rows = std::move(rows);
        endResetModel();
    }
    const std::vector<Row> &rows() const { return m_rows; }
    const Row *rowAt(const QModelIndex &index) const {
        return index.isValid() && index.row() < static_cast<int>(m_rows.size())
                   ? &m_rows[static_cast<std::size_t>(index.row())]
                   : nullptr;
    }

    int rowCount(const QModelIndex &parent = {}) const final {
        return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
    }
    int columnCount(const QModelIndex &parent = {}) const final { return parent.isValid() ? 0 : Columns; }
    QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const final {
        const Row *row = rowAt(index);
        return row && index.column() < Columns ? cell(*row, index.column(), role) : QVariant();
    }
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const final {
        if (orientation != Qt::Horizontal || section < 0 || section >= Columns)
            return {};
        return header(section, role);
    }

protected:
    virtual QVariant cell(const Row &row, int column, int role) const = 0;
    virtual QVariant header(int column, int role) const = 0;

    std::vector<Row> m_rows;
};

} // namespace tpscope
