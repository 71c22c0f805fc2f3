// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpscope {

// Text for HTML: & < > " ' escaped. Everything a report shows goes through it.
std::string escapeHtml(std::string_view text);

// A self-contained page, light and dark by the reader's system, no script and nothing loaded. body is HTML.
std::string htmlPage(std::string_view title, std::string_view body);

// <table> with escaped cells; columns whose cells are numbers are set to the right.
std::string htmlTable(const std::vector<std::string> &headers, const std::vector<std::vector<std::string>> &rows);

} // namespace tpscope
