// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "report/planfacts.h"

namespace tpscope {

// Text that Markdown shows as it is, on one line.
std::string escapeMarkdown(std::string_view text);

// "## title", the note and the table.
std::string markdownTable(const ReportTable &table);

} // namespace tpscope
