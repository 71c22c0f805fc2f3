// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>

#include "base/error.h"

namespace tpscope {

// The Python that runs the transformers backend: $TPSCOPE_PYTHON; else venv/bin/python in the
// folder of the program or one of its next two parents (the build folder); else a python3 of $PATH.
// Each must be able to find torch and transformers (which are not imported here: that takes
// seconds). Blocking, some 0.1 s; thread-safe. Errors: Unsupported, with what to set or install.
Result<std::filesystem::path> findPython();

} // namespace tpscope
