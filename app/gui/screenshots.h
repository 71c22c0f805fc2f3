// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

namespace tpscope {

// Renders each view of the bundled example at 1280 x 720 as <view>-light.png and <view>-dark.png into a folder, which
// is made. Waits for each analysis to end. Returns the process's exit code; says on stderr what went wrong.
int renderScreenshots(const QString &folder);

} // namespace tpscope
