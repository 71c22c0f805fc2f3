// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/planhtml.h"

#include "report/htmlpage.h"
#include "report/planfacts.h"

namespace tpscope {

std::string planHtml(const PlanAnalysis &analysis) { return planHtml(planFacts(analysis)); }

std::string planHtml(const PlanFacts &facts) {
    std::string body = "<h1>" + escapeHtml(facts.title) + "</h1>\n<p class=\"result\">" + escapeHtml(facts.result) +
                       "</p>\n<p class=\"basis\">" + escapeHtml(facts.basis) + "</p>\n";
    for (const ReportTable &table : facts.tables) {
        body += "<h2>" + escapeHtml(table.title) + "</h2>\n";
        if (!table.note.empty())
            body += "<p class=\"note\">" + escapeHtml(table.note) + "</p>\n";
        body += htmlTable(table.headers, table.rows);
    }
    return htmlPage(facts.title, body);
}

} // namespace tpscope
