// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace tpscope {

// A Python and, for a working copy that is not installed in it, the folder with the package.
struct ProbePython {
    std::filesystem::path program;
    std::filesystem::path searchFirst; // put in front of PYTHONPATH; empty: none
};

// What --python names: an interpreter, the folder of a virtual environment, or a working copy of
// transformers (a folder with src/transformers or transformers), which runs in findPython()'s.
// Errors: NotFound, Unsupported (no torch or no transformers in it), those of findPython().
Result<ProbePython> pythonOf(const std::string &argument);

// The Python that runs the transformers backend: $TPSCOPE_PYTHON; else venv/bin/python in the
// folder of the program or one of its next two parents (the build folder); else a python3 of $PATH.
// Each must be able to find torch and transformers (which are not imported here: that takes
// seconds). Blocking, some 0.1 s; thread-safe. Errors: Unsupported, with what to set or install.
Result<std::filesystem::path> findPython();

} // namespace tpscope
