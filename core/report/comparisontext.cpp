// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisontext.h"

#include <algorithm>
#include <vector>

#include "report/comparisonfacts.h"

namespace tpscope {
namespace {

std::string padded(const std::string &text, std::size_t width, bool right) {
    const std::string space(width > text.size() ? width - text.size() : 0, ' ');
    return right ? space + text : text + space;
}

// rightFrom, rightTo: columns of numbers.
std::string tableText(const ReportTable &table, std::size_t rightFrom, std::size_t rightTo) {
    std::string out;
    std::vector<std::vector<std::string>> rows{table.headers};
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
    std::vector<std::size_t> widths(table.headers.size(), 0);
    for (const auto &row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    for (const auto &row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += (i ? "  " : "") + padded(row[i], widths[i], i >= rightFrom && i < rightTo);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

} // namespace

std::string comparisonText(const Comparison &comparison) {
    const ComparisonFacts facts = comparisonFacts(comparison);
    std::string out = facts.title + "\n" + facts.result + "\n" + facts.basis + "\n\n" + tableText(facts.numbers, 1, 3);
    for (const ReportTable &table : facts.details) {
        out += "\n" + table.title + (table.note.empty() ? "" : " - " + table.note) + "\n";
        const bool numbers = table.headers.size() > 3;
        out += tableText(table, 1, numbers ? 3 : 0);
    }
    out += "\n";
    for (const std::string &note : facts.notes)
        out += note + "\n";
    return out;
}

} // namespace tpscope
