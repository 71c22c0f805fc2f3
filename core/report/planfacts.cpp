// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/planfacts.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace tpscope {
namespace {

std::string percent(double fraction) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100.0 * fraction);
    return text;
}

std::string sizes(const std::vector<int> &tpSizes) {
    std::string out;
    for (const int size : tpSizes)
        out += (out.empty() ? "" : " ") + std::to_string(size);
    return out.empty() ? "none" : out;
}

ReportTable findings(const LintReport &report) {
    ReportTable table{"Findings", "", {"severity", "code", "line", "rule", "what and why", "fix"}, {}};
    for (const Diagnostic &diagnostic : report.diagnostics)
        table.rows.push_back({std::string(name(diagnostic.severity)), diagnostic.code,
                              diagnostic.span.valid() ? std::to_string(diagnostic.span.line) : "-",
                              diagnostic.rule.empty() ? "-" : diagnostic.rule, diagnostic.message,
                              diagnostic.fix ? diagnostic.fix->title : "-"});
    return table;
}

ReportTable sharding(const ShardLayout &layout) {
    ReportTable table{"Sharding", "One row for identical layers. Predicted by rule.",
                      {"parameter", "x", "style", "placement", "global", "local on rank 0"}, {}};
    std::vector<std::vector<std::string>> &rows = table.rows;
    for (const ParameterShard &shard : layout.parameters) {
        std::vector<std::string> row{genericName(shard.name), "1", shard.style.empty() ? "-" : shard.style,
                                     placementText(shard.placement), toText(shard.globalShape),
                                     toText(shard.localShapes.front())};
        const auto same = std::ranges::find_if(rows, [&](const std::vector<std::string> &other) {
            return other[0] == row[0] && std::equal(other.begin() + 2, other.end(), row.begin() + 2);
        });
        if (same == rows.end())
            rows.push_back(std::move(row));
        else
            (*same)[1] = std::to_string(std::stoi((*same)[1]) + 1);
    }
    return table;
}

ReportTable memory(const ShardLayout &layout) {
    ReportTable table{"Weights per rank", "", {"rank", "weights"}, {}};
    for (std::size_t rank = 0; rank < layout.bytesPerRank.size(); ++rank)
        table.rows.push_back({std::to_string(rank), formatBytes(static_cast<std::uint64_t>(layout.bytesPerRank[rank]))});
    return table;
}

ReportTable graphs(const GraphCapture &before, const GraphCapture &chosen) {
    ReportTable table{"Graphs under torch.compile",
                      "Predicted; other causes of breaks are unknown until a trace is read.",
                      {"hooks", "graph breaks", "graphs, prefill", "launches, prefill", "graphs, decode",
                       "launches a token, decode", "hook sites"},
                      {}};
    for (const GraphCapture *capture : {&before, &chosen})
        table.rows.push_back({std::string(name(capture->hooks)), std::to_string(capture->graphBreaks),
                              std::to_string(capture->prefill.graphs), std::to_string(capture->prefill.launches),
                              std::to_string(capture->decode.graphs), std::to_string(capture->decode.launches),
                              std::to_string(capture->sites.size())});
    return table;
}

ReportTable breaks(const GraphCapture &capture) {
    ReportTable table{"Where module backward hooks break the graph", "Predicted.",
                      {"module", "rule", "line", "cause"}, {}};
    for (const GraphBreak &entry : capture.breaks)
        table.rows.push_back({entry.module, entry.rule, entry.line ? std::to_string(entry.line) : "inherited",
                              entry.cause});
    return table;
}

} // namespace

std::string placementText(const Placement &placement) {
    std::string out(name(placement.kind));
    if (placement.kind == PlacementKind::Shard || placement.kind == PlacementKind::StridedShard)
        out += "(" + std::to_string(placement.dim) + ")";
    return out;
}

PlanFacts planFacts(const PlanAnalysis &analysis) {
    PlanFacts facts;
    const LintReport &report = analysis.lint;
    facts.title = analysis.workspace->model.className + ", tp " + std::to_string(analysis.tp);
    if (analysis.unreadable) {
        facts.result = "the plan cannot be read: " + analysis.unreadable->text();
        return facts;
    }
    facts.result = "outcome " + std::string(name(report.outcome)) + " - valid tp sizes " + sizes(report.validTpSizes) +
                   " - " + percent(analysis.shards.shardedFraction()) + " of the bytes sharded";
    facts.basis = "by rule: transformers " + report.upstream + ", " + report.attention + " attention, " + report.dtype;
    facts.tables.push_back(findings(report));
    facts.tables.push_back(sharding(analysis.shards));
    facts.tables.push_back(memory(analysis.shards));
    if (analysis.withModuleBackward && analysis.withChosenHooks) {
        facts.result += " - predicted graph breaks " + std::to_string(analysis.withModuleBackward->graphBreaks) +
                        " with module backward hooks, " + std::to_string(analysis.withChosenHooks->graphBreaks) +
                        " with " + std::string(name(analysis.withChosenHooks->hooks));
        facts.tables.push_back(graphs(*analysis.withModuleBackward, *analysis.withChosenHooks));
        facts.tables.push_back(breaks(*analysis.withModuleBackward));
    }
    std::erase_if(facts.tables, [](const ReportTable &table) { return table.rows.empty(); });
    return facts;
}

} // namespace tpscope
