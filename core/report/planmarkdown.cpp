// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/planmarkdown.h"

#include "report/markdown.h"

namespace tpscope {

std::string planMarkdown(const PlanAnalysis &analysis) { return planMarkdown(planFacts(analysis)); }

std::string planMarkdown(const PlanFacts &facts) {
    std::string out = "# " + escapeMarkdown(facts.title) + "\n\n**" + escapeMarkdown(facts.result) + "**\n\n" +
                      escapeMarkdown(facts.basis) + "\n";
    for (const ReportTable &table : facts.tables)
        out += "\n" + markdownTable(table);
    return out;
}

} // namespace tpscope
