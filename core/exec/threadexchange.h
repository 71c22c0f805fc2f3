// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace tpscope {

// What ranks exchange that are threads of one process: each lays its tensor down and gets those of all, once everybody
// has come. Thousands of short runs can be made this way, which Gloo's connections would dominate; and a rank that leaves
// ends the others' waiting at once. Thread-safe.
class ThreadExchange {
public:
    explicit ThreadExchange(int size) : m_size(size) {}

    // By rank. The tensors are copies; whoever gets them only reads. Throws std::runtime_error when a rank has left.
    std::vector<at::Tensor> meet(int rank, const at::Tensor &tensor);
    void leave();

private:
    const int m_size;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::size_t m_generation = 0;
    int m_arrived = 0;
    bool m_left = false;
    // A rank may lie one meeting behind while it still reads: two tables are enough.
    std::array<std::vector<at::Tensor>, 2> m_tables;
};

} // namespace tpscope
