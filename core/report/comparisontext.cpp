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

} // namespace

std::string comparisonText(const Comparison &comparison) {
    const ComparisonFacts facts = comparisonFacts(comparison);
    std::string out = facts.title + "\n" + facts.result + "\n" + facts.basis + "\n\n";
    std::vector<std::vector<std::string>> rows{facts.numbers.headers};
    rows.insert(rows.end(), facts.numbers.rows.begin(), facts.numbers.rows.end());
    std::vector<std::size_t> widths(facts.numbers.headers.size(), 0);
    for (const auto &row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    for (const auto &row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += (i ? "  " : "") + padded(row[i], widths[i], i == 1 || i == 2);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    if (!facts.notes.empty() || !facts.environment.empty())
        out += "\n";
    for (const std::string &note : facts.notes)
        out += "note: " + note + "\n";
    for (const std::string &line : facts.environment)
        out += line + "\n";
    return out;
}

} // namespace tpscope
