// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "measure/comparison.h"

namespace tpscope {

// Comparisons on disk: the one that ships with the program, and files written by `tpscope compare --save`.
QString bundledRecordingPath();
// Reads and checks a file. Some milliseconds: call it on a worker. Errors: NotFound, BadInput.
Result<Comparison> loadComparison(const QString &path);

} // namespace tpscope
