// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/interrupt.h"

#include <chrono>
#include <csignal>

namespace tpscope::cli {
namespace {

volatile std::sig_atomic_t signalled = 0;

// Only sets a flag: nothing else is allowed here. The watcher thread turns it into a stop request. `timeout` and shells
// send a signal twice; the third ends the program even if the stop hangs.
extern "C" void onSignal(int number) {
    signalled = signalled + 1;
    if (signalled >= 3)
        std::signal(number, SIG_DFL);
}

} // namespace

Interrupt::Interrupt()
    : m_watcher([this](std::stop_token finished) {
          while (!finished.stop_requested() && !signalled)
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
          if (signalled)
              m_stop.request_stop();
      }) {
    signalled = 0;
    std::signal(SIGINT, onSignal);
    std::signal(SIGTERM, onSignal);
}

Interrupt::~Interrupt() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
}

} // namespace tpscope::cli
