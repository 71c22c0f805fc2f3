// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace tpscope {

// The folder that holds configs/, profiles/, probe/, plans/ ...: $TPSCOPE_RESOURCES, else
// <program>/../share/tpscope (installed), else the source tree this was built from.
std::filesystem::path resourceDir();

// The built-in plans (plans/<family>.yaml): beside or inside resourceDir().
std::filesystem::path plansDir();

// A whole file as bytes. Errors: NotFound, BadInput (a directory, unreadable).
Result<std::string> readFile(const std::filesystem::path &path);

// Writes to a temporary file beside path and renames it over path, so that a failure leaves the old file whole.
Result<void> writeFileAtomically(const std::filesystem::path &path, const std::string &bytes);

} // namespace tpscope
