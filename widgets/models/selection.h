// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

namespace tpscope {

// What is selected, shared by all views: a view that selects sets it, every view follows. Views never call each other.
class Selection : public QObject {
    Q_OBJECT

public:
    using QObject::QObject;

    QString module() const { return m_module; } // full name; layer numbers as "*" where a fold of layers is meant
    int line() const { return m_line; }         // of the plan's text, from 1; 0 none
    int rank() const { return m_rank; }

    void selectModule(const QString &module) {
        if (module == m_module)
            return;
        m_module = module;
        emit moduleSelected(module);
    }
    void selectLine(int line, int column) {
        m_line = line;
        emit lineSelected(line, column);
    }
    void selectRank(int rank) {
        if (rank == m_rank)
            return;
        m_rank = rank;
        emit rankSelected(rank);
    }

signals:
    void moduleSelected(const QString &module);
    void lineSelected(int line, int column);
    void rankSelected(int rank);

private:
    QString m_module;
    int m_line = 0;
    int m_rank = 0;
};

} // namespace tpscope
