// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisonfacts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tpscope {
namespace {

std::string formatted(const char *format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string word(Source source) { return std::string(name(source)); }

std::string sources(Source before, Source after) {
    return before == after ? word(before) : word(before) + " / " + word(after);
}

std::string countText(const SourcedCount &count) { return count.value ? std::to_string(*count.value) : "-"; }

void addGraphRows(ReportTable &table, const std::optional<GraphNumbers> &before,
                  const std::optional<GraphNumbers> &after) {
    if (!before || !after)
        return;
    const auto row = [&](const char *what, int GraphNumbers::*member) {
        table.rows.push_back({what, std::to_string(*before.*member), std::to_string(*after.*member),
                              sources(before->source, after->source)});
    };
    row("graph breaks", &GraphNumbers::graphBreaks);
    row("distinct graphs, prefill", &GraphNumbers::prefillGraphs);
    row("launches, prefill", &GraphNumbers::prefillLaunches);
    row("distinct graphs, decode", &GraphNumbers::decodeGraphs);
    row("launches a token, decode", &GraphNumbers::decodeLaunches);
}

std::string perTokenText(const Summary &summary) {
    return summary.n ? milliseconds(summary.median) : "-";
}

void addTimeRows(ReportTable &table, const Comparison &comparison) {
    const Summary &before = comparison.beforeMs;
    const Summary &after = comparison.afterMs;
    const std::string source = sources(comparison.before.source, comparison.after.source);
    const auto row = [&](const char *what, double Summary::*member) {
        table.rows.push_back({what, before.n ? milliseconds(before.*member) : "-",
                              after.n ? milliseconds(after.*member) : "-", source});
    };
    row("time a token, median", &Summary::median);
    if (std::max(before.n, after.n) > 1) {
        row("time a token, p90", &Summary::p90);
        row("time a token, p99", &Summary::p99);
        row("time a token, MAD", &Summary::mad);
    }
    table.rows.push_back({"samples", std::to_string(before.n), std::to_string(after.n), source});
    const Summary first = summarize(comparison.before.timeToFirstTokenMs);
    const Summary second = summarize(comparison.after.timeToFirstTokenMs);
    if (first.n && second.n)
        table.rows.push_back({"time to first token", milliseconds(first.median), milliseconds(second.median), source});
}

void addCollectiveRows(ReportTable &table, const Comparison &comparison) {
    for (const auto &[kind, before] : comparison.before.collectives) {
        const auto after = comparison.after.collectives.find(kind);
        if (after == comparison.after.collectives.end())
            continue;
        table.rows.push_back({kind + " a token", std::to_string(before.count), std::to_string(after->second.count),
                              sources(comparison.before.source, comparison.after.source)});
    }
}

std::string resultText(const Comparison &comparison) {
    const SourcedCount breaksBefore = graphBreaksOf(comparison.before);
    const SourcedCount breaksAfter = graphBreaksOf(comparison.after);
    std::string out;
    if (breaksBefore.value && breaksAfter.value)
        out = "graph breaks " + countText(breaksBefore) + " -> " + countText(breaksAfter) + " (" +
              sources(breaksBefore.source, breaksAfter.source) + "); ";
    out += perTokenText(comparison.beforeMs) + " -> " + perTokenText(comparison.afterMs) + " a token (" +
           sources(comparison.before.source, comparison.after.source) + ")";
    out += ": " + std::string(name(comparison.verdict));
    if (comparison.ci95Ms)
        out += ", " + formatted("%+.2f ms", comparison.deltaMs) + formatted(" (%+.1f %%)", comparison.deltaPercent) +
               formatted(", 95 %% interval %+.2f", (*comparison.ci95Ms)[0]) +
               formatted(" to %+.2f ms", (*comparison.ci95Ms)[1]);
    return out;
}

std::string outputsText(const Comparison &comparison) {
    if (!comparison.outputsEqual)
        return "output ids were not computed";
    std::string out = *comparison.outputsEqual ? "output ids are equal" : "OUTPUT IDS DIFFER";
    if (comparison.maxAbsLogitError)
        out += formatted(", largest logit difference %.2g", *comparison.maxAbsLogitError);
    return out;
}

void addEnvironment(ComparisonFacts &facts, const RunTrace &trace, const std::string &side) {
    const Environment &environment = trace.environment;
    std::string versions;
    for (const auto &[what, version] : environment.versions)
        versions += (versions.empty() ? "" : ", ") + what + " " + version;
    facts.environment.push_back(side + ": backend " + std::string(name(trace.backend)) + ", tp " +
                                std::to_string(trace.tp) + ", hooks " + std::string(name(trace.hooks)) + ", " +
                                (environment.attention.empty() ? "attention unknown" : environment.attention) + ", " +
                                environment.dtype + ", seed " + std::to_string(environment.seed) + ", " +
                                std::to_string(environment.threads) + " thread(s) a rank");
    facts.environment.push_back(side + ": " + environment.machine + "; " + versions + "; " + environment.date);
    for (const auto &[what, note] : environment.notes)
        facts.notes.push_back(side + ": " + what + ": " + note);
    for (const std::string &statement : trace.statements)
        facts.notes.push_back(side + ": " + statement);
    if (!trace.partial.empty())
        facts.notes.push_back(side + ": partial: " + trace.partial);
}

} // namespace

std::string milliseconds(double ms) {
    return formatted(std::abs(ms) >= 100 ? "%.1f ms" : std::abs(ms) >= 1 ? "%.2f ms" : "%.3f ms", ms);
}

ComparisonFacts comparisonFacts(const Comparison &comparison) {
    ComparisonFacts facts;
    const RunTrace &before = comparison.before;
    const RunTrace &after = comparison.after;
    facts.title = before.hooks != after.hooks ? "Hooks " + std::string(name(before.hooks)) + " against " +
                                                    std::string(name(after.hooks))
                                              : std::string("Before against after");
    facts.title += ", tp " + std::to_string(after.tp) + ", backend " + std::string(name(after.backend));
    facts.result = resultText(comparison);
    facts.basis = outputsText(comparison);
    facts.numbers = {"Numbers", "", {"", "before", "after", "source"}, {}};
    addTimeRows(facts.numbers, comparison);
    addGraphRows(facts.numbers, before.graphs, after.graphs);
    addGraphRows(facts.numbers, before.predictedGraphs, after.predictedGraphs);
    facts.numbers.rows.push_back({"hooks registered after decode", std::to_string(before.hooksRegistered),
                                  std::to_string(after.hooksRegistered), sources(before.source, after.source)});
    addCollectiveRows(facts.numbers, comparison);
    addEnvironment(facts, before, "before");
    addEnvironment(facts, after, "after");
    std::ranges::sort(facts.notes);
    const auto repeated = std::ranges::unique(facts.notes);
    facts.notes.erase(repeated.begin(), repeated.end());
    return facts;
}

} // namespace tpscope
