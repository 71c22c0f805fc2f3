// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <memory>
#include <optional>
#include <vector>

#include "measure/comparison.h"

namespace tpscope {

// One finished, running or failed run or comparison of this session (newest last). Traces are shared and immutable.
struct RunEntry {
    int id = 0;
    QString title;   // "Compare hooks - transformers, tp 2"
    QString state;   // "running", "done", "failed", "cancelled", "recorded"
    QString message; // last progress, or the rank's own words
    double fraction = -1.0;
    std::shared_ptr<const RunTrace> trace;
    std::shared_ptr<const Comparison> comparison;
};

// The runs of a session and which one the views show. GUI thread.
class RunStore : public QObject {
    Q_OBJECT

public:
    using QObject::QObject;
    const std::vector<RunEntry> &entries() const { return m_entries; }
    const RunEntry *entry(int id) const;
    int add(RunEntry entry); // returns its id
    void update(const RunEntry &entry);
    void setCurrent(int id);
    int current() const { return m_current; } // 0: none
    std::shared_ptr<const Comparison> currentComparison() const;

signals:
    void entryAdded(int id);
    void entryChanged(int id);
    void currentChanged(int id);

private:
    std::vector<RunEntry> m_entries;
    int m_current = 0;
    int m_next = 1;
};

} // namespace tpscope
