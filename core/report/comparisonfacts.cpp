// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisonfacts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <tuple>

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

bool sameGraphs(const GraphNumbers &a, const GraphNumbers &b) {
    return std::tie(a.graphBreaks, a.prefillGraphs, a.prefillLaunches, a.decodeGraphs, a.decodeLaunches) ==
           std::tie(b.graphBreaks, b.prefillGraphs, b.prefillLaunches, b.decodeGraphs, b.decodeLaunches);
}

// Measured graphs with a prediction that says the same: one row of both.
bool predictedRight(const RunTrace &trace) {
    return trace.graphs && trace.predictedGraphs && sameGraphs(*trace.graphs, *trace.predictedGraphs);
}
bool predictedRight(const Comparison &comparison) {
    return predictedRight(comparison.before) && predictedRight(comparison.after);
}

void addGraphRows(ReportTable &table, const std::optional<GraphNumbers> &before,
                  const std::optional<GraphNumbers> &after, const std::string &addition = {}) {
    if (!before || !after)
        return;
    const auto row = [&](const char *what, int GraphNumbers::*member) {
        table.rows.push_back({what, std::to_string(*before.*member), std::to_string(*after.*member),
                              sources(before->source, after->source) + addition});
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
              sources(breaksBefore.source, breaksAfter.source) +
              (predictedRight(comparison) ? ", as predicted); " : "); ");
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

// Facts of the two sides in order; what both say is said once.
class SidedNotes {
public:
    void add(const char *side, const std::string &note) {
        const auto known = std::ranges::find(m_notes, note, &Note::text);
        if (known == m_notes.end())
            m_notes.push_back({note, side});
        else if (known->side != side)
            known->side = "both";
    }
    std::vector<std::string> lines() const {
        std::vector<std::string> out;
        for (const Note &note : m_notes)
            out.push_back(note.side + ": " + note.text);
        return out;
    }

private:
    struct Note {
        std::string text;
        std::string side;
    };
    std::vector<Note> m_notes;
};

std::string joined(const std::map<std::string, std::string> &texts) {
    std::string out;
    for (const auto &[what, text] : texts)
        out += (out.empty() ? "" : ", ") + what + " " + text;
    return out;
}

void addNotes(SidedNotes &notes, const RunTrace &trace, const char *side) {
    const Environment &environment = trace.environment;
    const std::string hooks = "hooks " + std::string(name(trace.hooks));
    if (std::ranges::none_of(trace.statements, [&](const auto &statement) { return statement.starts_with(hooks); }))
        notes.add(side, hooks);
    for (const std::string &statement : trace.statements)
        notes.add(side, statement);
    if (!trace.partial.empty())
        notes.add(side, "partial: " + trace.partial);
    notes.add(side, "backend " + std::string(name(trace.backend)) + ", tp " + std::to_string(trace.tp) + ", " +
                        (environment.attention.empty() ? "attention unknown" : environment.attention) + ", " +
                        environment.dtype + ", seed " + std::to_string(environment.seed) + ", " +
                        std::to_string(environment.threads) + " thread(s) a rank");
    for (const auto &[what, note] : environment.notes)
        if (what != "hooks") // a statement says it too
            notes.add(side, what + ": " + note);
    notes.add(side, environment.machine + "; " + joined(environment.versions));
    notes.add(side, "date " + environment.date);
}

void addCauses(ComparisonFacts &facts, const Comparison &comparison) {
    ReportTable table{"Causes of the graph breaks", "", {"", "cause", "source"}, {}};
    const auto add = [&](const char *side, const std::optional<GraphNumbers> &graphs) {
        if (graphs)
            for (const std::string &reason : graphs->reasons)
                table.rows.push_back({side, reason, word(graphs->source)});
    };
    add("before", comparison.before.graphs);
    add("after", comparison.after.graphs);
    if (!table.rows.empty())
        facts.details.push_back(std::move(table));
}

// "model.layers.3.mlp" -> "model.layers.*.mlp"
std::string withoutLayer(const std::string &module) {
    std::string out;
    for (std::size_t i = 0; i < module.size(); ++i) {
        const bool digit = module[i] >= '0' && module[i] <= '9';
        const bool starts = digit && i > 0 && module[i - 1] == '.';
        std::size_t end = i;
        while (starts && end < module.size() && module[end] >= '0' && module[end] <= '9')
            ++end;
        if (starts && (end == module.size() || module[end] == '.')) {
            out += '*';
            i = end - 1;
        } else {
            out += module[i];
        }
    }
    return out;
}

// Layers of one kind as one row: their sum.
std::vector<ModuleDelta> foldLayers(const std::vector<ModuleDelta> &modules) {
    std::vector<ModuleDelta> folded;
    std::map<std::string, std::pair<std::size_t, int>> rows; // index, how many
    for (const ModuleDelta &module : modules) {
        auto [row, isNew] = rows.try_emplace(withoutLayer(module.module), folded.size(), 0);
        if (isNew)
            folded.push_back({row->first, 0.0, 0.0});
        ModuleDelta &sum = folded[row->second.first];
        sum.beforeMs += module.beforeMs;
        sum.afterMs += module.afterMs;
        ++row->second.second;
    }
    for (const auto &[name, row] : rows)
        if (row.second > 1)
            folded[row.first].module += " x " + std::to_string(row.second);
    return folded;
}

void addModules(ComparisonFacts &facts, const Comparison &comparison) {
    constexpr std::size_t most = 12;
    std::vector<ModuleDelta> modules = foldLayers(comparison.perModule);
    std::ranges::stable_sort(modules, std::greater{}, [](const ModuleDelta &module) {
        return std::abs(module.afterMs - module.beforeMs);
    });
    const std::size_t shown = std::min(most, modules.size());
    if (shown == 0)
        return;
    ReportTable table{"Time by module and token", "Layers of one kind are summed.", {"module", "before", "after", "source"}, {}};
    if (modules.size() > shown)
        table.note += " The " + std::to_string(shown) + " largest differences of " + std::to_string(modules.size()) + ".";
    for (const ModuleDelta &module : std::span(modules).first(shown))
        table.rows.push_back({module.module, milliseconds(module.beforeMs), milliseconds(module.afterMs),
                              sources(comparison.before.source, comparison.after.source)});
    facts.details.push_back(std::move(table));
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
    addGraphRows(facts.numbers, before.graphs, after.graphs, predictedRight(comparison) ? ", as predicted" : "");
    if (!predictedRight(comparison))
        addGraphRows(facts.numbers, before.predictedGraphs, after.predictedGraphs);
    facts.numbers.rows.push_back({"hooks registered after decode", std::to_string(before.hooksRegistered),
                                  std::to_string(after.hooksRegistered), sources(before.source, after.source)});
    addCollectiveRows(facts.numbers, comparison);
    addCauses(facts, comparison);
    addModules(facts, comparison);
    SidedNotes notes;
    addNotes(notes, before, "before");
    addNotes(notes, after, "after");
    facts.notes = notes.lines();
    return facts;
}

} // namespace tpscope
