// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "models/runstore.h"
#include "models/tablemodel.h"

namespace tpscope {

// The runs of the session, newest first, kept in step with a RunStore.
class RunsModel : public TableModel<RunEntry, 4> {
    Q_OBJECT

public:
    enum Columns { TitleColumn, StateColumn, ResultColumn, SourceColumn };
    enum Roles { IdRole = Qt::UserRole };

    // store must outlive the model.
    explicit RunsModel(const RunStore &store, QObject *parent = nullptr);

protected:
    QVariant cell(const RunEntry &row, int column, int role) const override;
    QVariant header(int column, int role) const override;

private:
    void reload();
    const RunStore &m_store;
};

} // namespace tpscope
