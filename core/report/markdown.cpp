// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/markdown.h"

namespace tpscope {
namespace {

std::string rowOf(const std::vector<std::string> &cells) {
    std::string out = "|";
    for (const std::string &cell : cells)
        out += " " + escapeMarkdown(cell) + " |";
    return out + "\n";
}

} // namespace

std::string escapeMarkdown(std::string_view text) {
    constexpr std::string_view special = "|*_`<>[]\\#";
    std::string out;
    for (const char c : text) {
        if (special.find(c) != std::string_view::npos)
            out += '\\';
        out += c == '\n' || c == '\r' ? ' ' : c;
    }
    return out;
}

std::string markdownTable(const ReportTable &table) {
    std::string out = "## " + table.title + "\n\n" + (table.note.empty() ? "" : table.note + "\n\n");
    out += rowOf(table.headers) + "|";
    for (std::size_t i = 0; i < table.headers.size(); ++i)
        out += " --- |";
    out += "\n";
    for (const auto &row : table.rows)
        out += rowOf(row);
    return out;
}

} // namespace tpscope
