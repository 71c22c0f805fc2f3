// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runstore.h"

#include <algorithm>

namespace tpscope {

const RunEntry *RunStore::entry(int id) const {
    const auto found = std::ranges::find(m_entries, id, &RunEntry::id);
    return found == m_entries.end() ? nullptr : &*found;
}

int RunStore::add(RunEntry entry) {
    entry.id = m_next++;
    m_entries.push_back(std::move(entry));
    const int id = m_entries.back().id;
    emit entryAdded(id);
    return id;
}

void RunStore::update(const RunEntry &entry) {
    const auto found = std::ranges::find(m_entries, entry.id, &RunEntry::id);
    if (found == m_entries.end())
        return;
    *found = entry;
    emit entryChanged(entry.id);
}

void RunStore::setCurrent(int id) {
    if (id == m_current || (id != 0 && !entry(id)))
        return;
    m_current = id;
    emit currentChanged(id);
}

std::shared_ptr<const Comparison> RunStore::currentComparison() const {
    const RunEntry *shown = entry(m_current);
    return shown ? shown->comparison : nullptr;
}

} // namespace tpscope
