// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/planfacts.h"
#include "run/runtrace.h"

// Two plans of the same models side by side, for a review. Everything in here is by rule; nothing is run.
namespace tpscope {

// What one plan makes of one model at one size.
struct PlanAtSize {
    Outcome outcome = Outcome::NotChecked;
    int errors = 0;
    int warnings = 0;
    std::vector<std::string> codes; // of the errors and warnings, ascending, each once
    double shardedFraction = 0.0;
    std::int64_t largestRankBytes = 0;
    // Of one decode step on rank 0, and graph breaks of the prefill. Not set where the plan cannot run or the flow is not
    // known.
    std::optional<std::map<std::string, CollectiveCount>> collectives;
    std::optional<int> breaks;               // with the hooks asked for
    std::optional<int> moduleBackwardBreaks; // with those of transformers <= 5.21
};

// "" on one side: the rule, or the parameter's rule, is not there.
struct RuleChange {
    std::string key; // "ep_plan: ..." of expert-parallel rules
    std::string before;
    std::string after;
};

struct PlacementChange {
    std::string parameter; // layer numbers as "*"
    int count = 0;         // parameters of that name
    std::string before;    // "Shard(0)", "Replicate"
    std::string after;
};

struct SizeDiff {
    int tp = 1;
    PlanAtSize before;
    PlanAtSize after;
    std::vector<PlacementChange> placements;
};

struct ModelDiff {
    std::string model;             // as it was named
    std::vector<RuleChange> rules; // of the rules that apply, inherited ones included
    std::vector<SizeDiff> sizes;
};

struct PlanDiff {
    std::string before; // names of the plans
    std::string after;
    std::string basis;  // "by rule: transformers 5.24"
    std::vector<ModelDiff> models;
    // Some model and size that was ok is not any more.
    bool worse() const;
};

struct PlanDiffRequest {
    std::vector<int> sizes;
    std::optional<int> ep;
    AnalysisOptions options;
};

// Pure. model: how the workspace was named. A size that a plan refuses is a row like any other.
ModelDiff diffPlans(const std::shared_ptr<const Workspace> &workspace, const std::string &model,
                    const PlanChoice &before, const PlanChoice &after, const PlanDiffRequest &request);

// What text, Markdown and HTML lay out.
PlanFacts planDiffFacts(const PlanDiff &diff);
nlohmann::json toJson(const PlanDiff &diff);

} // namespace tpscope
