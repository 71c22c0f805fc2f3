// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <stop_token>
#include <thread>

namespace tpscope::cli {

// While it lives, Ctrl+C and SIGTERM request a stop instead of ending the process; a second one ends it. One at a time.
class Interrupt {
public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt &) = delete;
    Interrupt &operator=(const Interrupt &) = delete;
    std::stop_token token() const { return m_stop.get_token(); }

private:
    std::stop_source m_stop;
    std::jthread m_watcher;
};

} // namespace tpscope::cli
