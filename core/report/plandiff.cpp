// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/plandiff.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "run/costmodel.h"

namespace tpscope {
namespace {

using nlohmann::json;

PlanAtSize atSize(const PlanAnalysis &analysis) {
    PlanAtSize out;
    out.outcome = analysis.lint.outcome;
    out.errors = analysis.lint.errors();
    out.warnings = analysis.lint.warnings();
    std::set<std::string> codes;
    for (const Diagnostic &finding : analysis.lint.diagnostics)
        if (finding.severity != Severity::Info)
            codes.insert(finding.code);
    out.codes.assign(codes.begin(), codes.end());
    out.shardedFraction = analysis.lint.shardedFraction;
    out.largestRankBytes = analysis.shards.bytesPerRank.empty() ? 0 : std::ranges::max(analysis.shards.bytesPerRank);
    if (analysis.withChosenHooks)
        out.breaks = analysis.withChosenHooks->graphBreaks;
    if (analysis.withModuleBackward)
        out.moduleBackwardBreaks = analysis.withModuleBackward->graphBreaks;
    if (out.outcome == Outcome::Rejected || out.outcome == Outcome::ForwardError)
        return out;
    if (const auto work = forwardWork(analysis.workspace->model, analysis.plan, 1, 1))
        out.collectives = totals(work->kinds.front(), 1).collectives;
    return out;
}

std::map<std::string, std::string> rulesOf(const ResolvedPlan &plan) {
    std::map<std::string, std::string> rules;
    for (const EffectiveRule &rule : plan.rules)
        if (!rule.dropped)
            rules[(rule.expert ? "ep_plan: " : "") + rule.rule.key] = rule.rule.style;
    return rules;
}

// Keys of both, where the values differ; a missing one is empty.
std::vector<RuleChange> changed(const std::map<std::string, std::string> &before,
                                const std::map<std::string, std::string> &after) {
    std::map<std::string, RuleChange> all;
    for (const auto &[key, style] : before)
        all[key].before = style;
    for (const auto &[key, style] : after)
        all[key].after = style;
    std::vector<RuleChange> out;
    for (auto &[key, change] : all)
        if (change.before != change.after)
            out.push_back({key, std::move(change.before), std::move(change.after)});
    return out;
}

std::vector<PlacementChange> movedParameters(const ShardLayout &before, const ShardLayout &after) {
    std::vector<PlacementChange> out;
    for (const ParameterShard &shard : before.parameters) {
        const ParameterShard *other = after.find(shard.name);
        if (!other || other->placement == shard.placement)
            continue;
        PlacementChange change{genericName(shard.name), 1, placementText(shard.placement),
                               placementText(other->placement)};
        const auto known = std::ranges::find_if(out, [&](const PlacementChange &row) {
            return row.parameter == change.parameter && row.before == change.before && row.after == change.after;
        });
        known == out.end() ? out.push_back(std::move(change)) : void(++known->count);
    }
    return out;
}

// One cell for both sides: "5", or "5 -> 3".
std::string arrow(const std::string &before, const std::string &after) {
    return before == after ? before : before + " -> " + after;
}

std::string percent(double fraction) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100.0 * fraction);
    return text;
}

std::string numberText(const std::optional<int> &number) { return number ? std::to_string(*number) : "not checked"; }

std::string collectivesText(const PlanAtSize &side) {
    if (!side.collectives)
        return "not checked";
    std::string out;
    for (const auto &[kind, counted] : *side.collectives)
        out += (out.empty() ? "" : ", ") + std::to_string(counted.count) + " " + kind + " (" +
               formatBytes(static_cast<std::uint64_t>(counted.bytes)) + ")";
    return out.empty() ? "none" : out;
}

std::string codesText(const PlanAtSize &side) {
    std::string out;
    for (const std::string &code : side.codes)
        out += (out.empty() ? "" : " ") + code;
    return out.empty() ? "none" : out;
}

std::string bytesText(const PlanAtSize &side) { return formatBytes(static_cast<std::uint64_t>(side.largestRankBytes)); }

std::string orDash(const std::string &text) { return text.empty() ? "-" : text; }

void addTables(const ModelDiff &model, std::vector<ReportTable> &tables) {
    ReportTable sizes{model.model + ": sizes", "before -> after where they differ; per decode step on rank 0", {}, {}};
    sizes.headers = {"tp", "outcome", "findings", "largest rank", "sharded", "collectives", "graph breaks",
                     "with module hooks"};
    for (const SizeDiff &row : model.sizes)
        sizes.rows.push_back({std::to_string(row.tp),
                              arrow(std::string(name(row.before.outcome)), std::string(name(row.after.outcome))),
                              arrow(codesText(row.before), codesText(row.after)),
                              arrow(bytesText(row.before), bytesText(row.after)),
                              arrow(percent(row.before.shardedFraction), percent(row.after.shardedFraction)),
                              arrow(collectivesText(row.before), collectivesText(row.after)),
                              arrow(numberText(row.before.breaks), numberText(row.after.breaks)),
                              arrow(numberText(row.before.moduleBackwardBreaks),
                                    numberText(row.after.moduleBackwardBreaks))});
    tables.push_back(std::move(sizes));
    ReportTable rules{model.model + ": rules", "", {"rule", "before", "after"}, {}};
    for (const RuleChange &change : model.rules)
        rules.rows.push_back({change.key, orDash(change.before), orDash(change.after)});
    if (rules.rows.empty())
        rules.note = "The same rules apply.";
    tables.push_back(std::move(rules));
    for (const SizeDiff &row : model.sizes) {
        if (row.placements.empty())
            continue;
        ReportTable placements{model.model + ": placements at tp " + std::to_string(row.tp), "",
                               {"parameter", "x", "before", "after"}, {}};
        for (const PlacementChange &change : row.placements)
            placements.rows.push_back({change.parameter, std::to_string(change.count), change.before, change.after});
        tables.push_back(std::move(placements));
    }
}

json toJson(const PlanAtSize &side) {
    return {{"outcome", name(side.outcome)},
            {"errors", side.errors},
            {"warnings", side.warnings},
            {"codes", side.codes},
            {"sharded_fraction", side.shardedFraction},
            {"largest_rank_bytes", side.largestRankBytes},
            {"collectives", side.collectives ? toJson(*side.collectives) : json(nullptr)},
            {"graph_breaks", side.breaks ? json(*side.breaks) : json(nullptr)},
            {"module_backward_graph_breaks",
             side.moduleBackwardBreaks ? json(*side.moduleBackwardBreaks) : json(nullptr)}};
}

json toJson(const ModelDiff &model) {
    json rules = json::array();
    for (const RuleChange &change : model.rules)
        rules.push_back({{"rule", change.key},
                         {"before", change.before.empty() ? json(nullptr) : json(change.before)},
                         {"after", change.after.empty() ? json(nullptr) : json(change.after)}});
    json sizes = json::array();
    for (const SizeDiff &row : model.sizes) {
        json placements = json::array();
        for (const PlacementChange &change : row.placements)
            placements.push_back({{"parameter", change.parameter},
                                  {"count", change.count},
                                  {"before", change.before},
                                  {"after", change.after}});
        sizes.push_back({{"tp", row.tp},
                         {"before", toJson(row.before)},
                         {"after", toJson(row.after)},
                         {"placements", std::move(placements)}});
    }
    return {{"model", model.model}, {"rules", std::move(rules)}, {"sizes", std::move(sizes)}};
}

bool becameWorse(const SizeDiff &row) { return row.before.outcome == Outcome::Ok && row.after.outcome != Outcome::Ok; }

} // namespace

bool PlanDiff::worse() const {
    return std::ranges::any_of(
        models, [](const ModelDiff &model) { return std::ranges::any_of(model.sizes, becameWorse); });
}

ModelDiff diffPlans(const std::shared_ptr<const Workspace> &workspace, const std::string &model,
                    const PlanChoice &before, const PlanChoice &after, const PlanDiffRequest &request) {
    ModelDiff out;
    out.model = model;
    std::map<std::string, std::string> rulesBefore, rulesAfter;
    for (const int tp : request.sizes) {
        const PlanAnalysis first = analyze(workspace, before, tp, request.options);
        const PlanAnalysis second = analyze(workspace, after, tp, request.options);
        rulesBefore.merge(rulesOf(first.plan));
        rulesAfter.merge(rulesOf(second.plan));
        out.sizes.push_back({tp, atSize(first), atSize(second), movedParameters(first.shards, second.shards)});
    }
    out.rules = changed(rulesBefore, rulesAfter);
    return out;
}

PlanFacts planDiffFacts(const PlanDiff &diff) {
    PlanFacts facts;
    facts.title = diff.before + " -> " + diff.after;
    std::string worse, better;
    for (const ModelDiff &model : diff.models)
        for (const SizeDiff &row : model.sizes) {
            const std::string what = model.model + " at tp " + std::to_string(row.tp);
            if (becameWorse(row))
                worse += (worse.empty() ? "" : ", ") + what + " (" + std::string(name(row.after.outcome)) + ")";
            else if (row.after.outcome == Outcome::Ok && row.before.outcome != Outcome::Ok)
                better += (better.empty() ? "" : ", ") + what + " (was " + std::string(name(row.before.outcome)) + ")";
        }
    facts.result = (worse.empty() ? "nothing that was ok broke" : "no longer ok: " + worse) +
                   (better.empty() ? "" : "; now ok: " + better);
    facts.basis = diff.basis;
    for (const ModelDiff &model : diff.models)
        addTables(model, facts.tables);
    return facts;
}

json toJson(const PlanDiff &diff) {
    json models = json::array();
    for (const ModelDiff &model : diff.models)
        models.push_back(toJson(model));
    return {{"before", diff.before},
            {"after", diff.after},
            {"basis", diff.basis},
            {"source", name(Source::Predicted)},
            {"worse", diff.worse()},
            {"models", std::move(models)}};
}

} // namespace tpscope
