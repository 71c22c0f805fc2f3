// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisonmarkdown.h"

#include "report/comparisonfacts.h"
#include "report/markdown.h"

namespace tpscope {

std::string comparisonMarkdown(const Comparison &comparison) {
    const ComparisonFacts facts = comparisonFacts(comparison);
    std::string out = "# " + escapeMarkdown(facts.title) + "\n\n**" + escapeMarkdown(facts.result) + "**\n\n" +
                      escapeMarkdown(facts.basis) + "\n\n" + markdownTable(facts.numbers);
    for (const ReportTable &table : facts.details)
        out += "\n" + markdownTable(table);
    out += "\n## Basis\n\n";
    for (const std::string &note : facts.notes)
        out += "- " + escapeMarkdown(note) + "\n";
    return out;
}

} // namespace tpscope
