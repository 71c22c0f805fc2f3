// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/htmlpage.h"


namespace tpscope {
namespace {

constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --text: #1e2124; --subtle: #5d6368; --line: #dde0e3; --page: #ffffff;
  --blue: #0072b2; --vermillion: #c24e00; --purple: #a84f85; --grey: #6f757b; --band: #f5f6f7; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6e8; --subtle: #a3a9af; --line: #34373b; --page: #17181a;
  --blue: #56b4e9; --vermillion: #f07b3a; --purple: #cc79a7; --grey: #9aa0a6; --band: #202225; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 "DejaVu Sans", "Noto Sans", system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 1120px; margin: 32px auto; padding: 0 24px; }
h1 { font-size: 22px; margin: 0 0 8px; } h2 { font-size: 16px; margin: 32px 0 8px; }
p { margin: 8px 0; } .result { font-size: 18px; font-weight: 600; } .basis, .note { color: var(--subtle); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; } th, td { padding: 4px 16px 4px 0; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--subtle); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, td.code { font-family: "DejaVu Sans Mono", "Noto Sans Mono", monospace; font-size: 12.5px; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 12px "DejaVu Sans", sans-serif; }
)css";

bool isNumber(const std::string &cell) {
    return !cell.empty() && cell.find_first_not_of("0123456789.,-+ %") == std::string::npos &&
           cell.find_first_of("0123456789") != std::string::npos;
}

} // namespace

std::string escapeHtml(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        default: out += c;
        }
    }
    return out;
}

std::string htmlPage(std::string_view title, std::string_view body) {
    std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                      "content=\"width=device-width, initial-scale=1\">\n<title>";
    out += escapeHtml(title);
    out += "</title>\n<style>";
    out += style;
    out += "</style>\n</head>\n<body>\n";
    out += body;
    out += "</body>\n</html>\n";
    return out;
}

std::string htmlTable(const std::vector<std::string> &headers, const std::vector<std::vector<std::string>> &rows) {
    std::vector<bool> numeric(headers.size(), !rows.empty());
    for (const auto &row : rows)
        for (std::size_t i = 0; i < row.size() && i < numeric.size(); ++i)
            numeric[i] = numeric[i] && (isNumber(row[i]) || row[i] == "-");
    const auto cell = [&](const char *tag, std::size_t column, const std::string &text) {
        return std::string("<") + tag + (column < numeric.size() && numeric[column] ? " class=\"number\"" : "") + ">" +
               escapeHtml(text) + "</" + tag + ">";
    };
    std::string out = "<div class=\"scroll\"><table>\n<tr>";
    for (std::size_t i = 0; i < headers.size(); ++i)
        out += cell("th", i, headers[i]);
    out += "</tr>\n";
    for (const auto &row : rows) {
        out += "<tr>";
        for (std::size_t i = 0; i < row.size(); ++i)
            out += cell("td", i, row[i]);
        out += "</tr>\n";
    }
    return out + "</table></div>\n";
}

} // namespace tpscope
