// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/threadexchange.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace tpscope {

std::vector<at::Tensor> ThreadExchange::meet(int rank, const at::Tensor &tensor) {
    const at::Tensor copy = tensor.clone();
    std::unique_lock lock(m_mutex);
    const std::size_t generation = m_generation;
    std::vector<at::Tensor> &table = m_tables[generation % 2];
    table.resize(static_cast<std::size_t>(m_size));
    table[static_cast<std::size_t>(rank)] = copy;
    if (++m_arrived == m_size) {
        m_arrived = 0;
        ++m_generation;
        m_changed.notify_all();
    }
    m_changed.wait(lock, [&] { return m_generation != generation || m_left; });
    if (m_generation == generation)
        throw std::runtime_error("the peer ranks are gone");
    return table;
}

void ThreadExchange::leave() {
    const std::lock_guard lock(m_mutex);
    m_left = true;
    m_changed.notify_all();
}

} // namespace tpscope
