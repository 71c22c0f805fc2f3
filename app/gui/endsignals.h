// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace tpscope {

// From now on SIGTERM, SIGHUP and SIGINT leave the event loop (exit code 128 + signal) instead of ending the process
// at once, so that runs are ended and temporary files removed. Call it once, after the QApplication was made.
void endOnSignals();

} // namespace tpscope
