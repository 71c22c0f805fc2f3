// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "lint/lint.h"
#include "models/tablemodel.h"

namespace tpscope {

// The findings of one analysis, worst first.
class FindingsModel : public TableModel<Diagnostic, 5> {
    Q_OBJECT

public:
    enum Columns { SeverityColumn, CodeColumn, LineColumn, MessageColumn, FixColumn };
    enum Roles { SortRole = Qt::UserRole, SeverityRole }; // SeverityRole: 1 info, 2 warning, 3 error
    using TableModel::TableModel;

protected:
    QVariant cell(const Diagnostic &row, int column, int role) const override;
    QVariant header(int column, int role) const override;
};

} // namespace tpscope
