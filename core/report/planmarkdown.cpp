// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/planmarkdown.h"

#include "report/planfacts.h"

namespace tpscope {
namespace {

// A cell may hold anything a plan's text holds.
std::string escaped(const std::string &cell) {
    std::string out;
    for (const char c : cell) {
        if (c == '|' || c == '*' || c == '_' || c == '`' || c == '<' || c == '[' || c == '\\')
            out += '\\';
        out += c == '\n' || c == '\r' ? ' ' : c;
    }
    return out;
}

void addRow(std::string &out, const std::vector<std::string> &cells) {
    out += "|";
    for (const std::string &cell : cells)
        out += " " + escaped(cell) + " |";
    out += "\n";
}

} // namespace

std::string planMarkdown(const PlanAnalysis &analysis) {
    const PlanFacts facts = planFacts(analysis);
    std::string out = "# " + escaped(facts.title) + "\n\n**" + escaped(facts.result) + "**\n\n" + escaped(facts.basis) +
                      "\n";
    for (const ReportTable &table : facts.tables) {
        out += "\n## " + table.title + "\n\n" + (table.note.empty() ? "" : table.note + "\n\n");
        addRow(out, table.headers);
        addRow(out, std::vector<std::string>(table.headers.size(), "---"));
        for (const std::vector<std::string> &row : table.rows)
            addRow(out, row);
    }
    return out;
}

} // namespace tpscope
