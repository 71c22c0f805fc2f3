// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

namespace tpscope {

// What a file or folder somebody hands to the window is: told by what is in it, not by its name.
enum class FileKind {
    Model,      // a folder, or a model's config.json under any name
    Comparison, // two runs, as `tpscope compare --save` writes them
    Plan        // everything else: reading it as a plan says what is wrong with it
};

// Reads the file when it is JSON: call it on a worker.
FileKind fileKind(const QString &path);

} // namespace tpscope
