// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/table.h"

#include <algorithm>
#include <cstdio>

namespace tpscope::cli {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t width(const std::string &text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

} // namespace

Table::Table(std::vector<std::string> headers, std::vector<Align> alignment) : m_alignment(std::move(alignment)) {
    m_rows.push_back(std::move(headers));
}

void Table::add(std::vector<std::string> cells) { m_rows.push_back(std::move(cells)); }

std::string Table::text() const {
    std::vector<std::size_t> widths(m_alignment.size(), 0);
    for (const auto &row : m_rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width(row[i]));
    std::string out;
    for (const auto &row : m_rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string padding(widths[i] - width(row[i]), ' ');
            line += i ? "  " : "";
            line += m_alignment[i] == Align::Right ? padding + row[i] : row[i] + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string grouped(std::int64_t number) {
    std::string digits = std::to_string(number);
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    for (std::size_t i = digits.size(); i > first + 3; i -= 3)
        digits.insert(i - 3, ",");
    return digits;
}

std::string fixed(double number, int decimals) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.*f", decimals, number);
    return buffer;
}

} // namespace tpscope::cli
