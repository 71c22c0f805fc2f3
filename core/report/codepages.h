// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

// The pages on lint codes, docs/codes/<code>.md: what, why, an example that gives the finding, and the corrected one.
namespace tpscope {

// docs/: inside resourceDir() (installed) or beside it (source tree).
std::filesystem::path docsDir();

// The page of a code of lint/codes.h, as Markdown. Errors: NotFound, BadInput (see readFile).
Result<std::string> codePage(std::string_view code);

} // namespace tpscope
