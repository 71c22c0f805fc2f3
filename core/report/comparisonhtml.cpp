// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisonhtml.h"

#include <algorithm>
#include <cstdio>

#include "report/comparisonfacts.h"
#include "report/htmlpage.h"

namespace tpscope {
namespace {

constexpr double stripWidth = 1000.0;
constexpr double labelWidth = 84.0;

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
}

// One rectangle a launch, in order: what a forward hands to the device, before above after.
std::string strip(const std::vector<int> &sequence, double top, const char *label, const char *fill) {
    std::string out = "<text x=\"0\" y=\"" + number(top + 17) + "\">" + label + "</text>\n";
    const double width = (stripWidth - labelWidth) / static_cast<double>(std::max<std::size_t>(sequence.size(), 1));
    for (std::size_t i = 0; i < sequence.size(); ++i)
        out += "<rect x=\"" + number(labelWidth + width * static_cast<double>(i)) + "\" y=\"" + number(top) +
               "\" width=\"" + number(std::max(width - 1.0, 0.6)) + "\" height=\"24\" " + fill + "><title>launch " +
               std::to_string(i + 1) + ": graph " + std::to_string(sequence[i]) + "</title></rect>\n";
    return out;
}

std::string launchStrips(const Comparison &comparison) {
    const auto &before = comparison.before.graphs;
    const auto &after = comparison.after.graphs;
    if (!before || !after || before->decodeSequence.empty() || after->decodeSequence.empty())
        return {};
    return "<h2>Launches of one decode step</h2>\n<p class=\"note\">Each box is one graph launch; " +
           std::to_string(before->decodeSequence.size()) + " before, " + std::to_string(after->decodeSequence.size()) +
           " after - " + std::string(name(before->source)) + ". Hollow: before. Filled: after.</p>\n" +
           "<svg viewBox=\"0 0 " + number(stripWidth) + " 64\" role=\"img\" aria-label=\"launches before and after\">\n" +
           strip(before->decodeSequence, 2, "A before", "fill=\"none\" stroke=\"var(--blue)\"") +
           strip(after->decodeSequence, 36, "B after", "fill=\"var(--blue)\"") + "</svg>\n";
}

// Every sample as a tick on one axis, and the medians.
std::string samples(const std::vector<double> &values, double median, double most, double top, const char *label) {
    const auto x = [&](double value) { return labelWidth + (stripWidth - labelWidth - 90) * value / most; };
    std::string out = "<text x=\"0\" y=\"" + number(top + 15) + "\">" + label + "</text>\n";
    for (const double value : values)
        out += "<line x1=\"" + number(x(value)) + "\" x2=\"" + number(x(value)) + "\" y1=\"" + number(top) + "\" y2=\"" +
               number(top + 22) + "\" stroke=\"var(--blue)\" stroke-opacity=\"0.35\"/>\n";
    return out + "<line x1=\"" + number(x(median)) + "\" x2=\"" + number(x(median)) + "\" y1=\"" + number(top - 2) +
           "\" y2=\"" + number(top + 24) + "\" stroke=\"var(--text)\" stroke-width=\"2\"/>\n<text x=\"" +
           number(x(median) + 6) + "\" y=\"" + number(top - 5) + "\">" + escapeHtml(milliseconds(median)) + "</text>\n";
}

std::string timeStrips(const Comparison &comparison) {
    const std::vector<double> &before = comparison.before.tokenMs;
    const std::vector<double> &after = comparison.after.tokenMs;
    if (before.empty() || after.empty())
        return {};
    const double most = std::max(*std::ranges::max_element(before), *std::ranges::max_element(after));
    if (!(most > 0))
        return {};
    return "<h2>Time of each token</h2>\n<p class=\"note\">One tick a token from 0 to " +
           escapeHtml(milliseconds(most)) + "; the thick line is the median - " +
           std::string(name(comparison.before.source)) + ".</p>\n<svg viewBox=\"0 0 " + number(stripWidth) +
           " 110\" role=\"img\" aria-label=\"time of each token before and after\">\n" +
           samples(before, comparison.beforeMs.median, most, 22, "A before") +
           samples(after, comparison.afterMs.median, most, 76, "B after") + "</svg>\n";
}

std::string list(const std::vector<std::string> &lines) {
    std::string out = "<ul>\n";
    for (const std::string &line : lines)
        out += "<li>" + escapeHtml(line) + "</li>\n";
    return out + "</ul>\n";
}

} // namespace

std::string comparisonHtml(const Comparison &comparison) {
    const ComparisonFacts facts = comparisonFacts(comparison);
    std::string body = "<h1>" + escapeHtml(facts.title) + "</h1>\n<p class=\"result\">" + escapeHtml(facts.result) +
                       "</p>\n<p class=\"basis\">" + escapeHtml(facts.basis) + "</p>\n";
    body += launchStrips(comparison);
    body += timeStrips(comparison);
    body += "<h2>Numbers</h2>\n" + htmlTable(facts.numbers.headers, facts.numbers.rows);
    for (const ReportTable &table : facts.details)
        body += "<h2>" + escapeHtml(table.title) + "</h2>\n" +
                (table.note.empty() ? "" : "<p class=\"note\">" + escapeHtml(table.note) + "</p>\n") +
                htmlTable(table.headers, table.rows);
    body += "<h2>Basis</h2>\n" + list(facts.notes);
    return htmlPage(facts.title, body);
}

} // namespace tpscope
