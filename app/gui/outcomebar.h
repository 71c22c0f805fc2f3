// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "session/workspace.h"

class QLabel;

namespace tpscope {

// The status bar's right side: outcome, valid tp sizes, share sharded, bytes on the largest rank; all by rule.
// GUI thread.
class OutcomeBar : public QWidget {
    Q_OBJECT

public:
    explicit OutcomeBar(QWidget *parent = nullptr);
    void show(const PlanAnalysis *analysis); // nullptr: nothing is known yet
    QString text() const;                    // all of it, for tests and screen readers

private:
    QLabel *m_outcome;
    QLabel *m_sizes;
    QLabel *m_share;
    QLabel *m_bytes;
    QLabel *m_breaks;
};

} // namespace tpscope
