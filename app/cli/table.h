// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpscope::cli {

enum class Align { Left, Right };

// Columns of text for a terminal, as wide as their widest cell.
class Table {
public:
    Table(std::vector<std::string> headers, std::vector<Align> alignment);
    void add(std::vector<std::string> cells);
    std::string text() const; // with a line feed at the end of each row

private:
    std::vector<std::vector<std::string>> m_rows; // [0] the headers
    std::vector<Align> m_alignment;
};

std::string grouped(std::int64_t number);           // "8,190,735,360"
std::string fixed(double number, int decimals);     // "37.60"

} // namespace tpscope::cli
