// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "run/runconfig.h"
#include "session/workspace.h"

namespace tpscope::cli {

// The options that most verbs share.
struct CommonOptions {
    std::string model;
    std::string plan = "auto";
    std::optional<int> tp; // default: the plan's tp_size, else ep, else 2 (1 for --plan none)
    std::optional<int> ep; // default: the plan's ep_size, else 1
    std::string format = "text";
    std::optional<std::string> hooks; // default: what --upstream does, else post-accumulate-grad
    std::optional<std::string> upstream;
    std::string attention;
    bool json() const { return format == "json"; }
};

void addModelOption(CLI::App &verb, CommonOptions &options);
void addPlanOptions(CLI::App &verb, CommonOptions &options); // --plan --tp --upstream
void addHookOption(CLI::App &verb, CommonOptions &options);
void addFormatOption(CLI::App &verb, CommonOptions &options, std::vector<std::string> formats = {"text", "json"});

// Model, plan and everything derived from them that needs no tensor.
struct Loaded {
    std::shared_ptr<const Workspace> workspace;
    PlanChoice choice;
    ResolvedPlan plan;
    HookMode hooks = HookMode::PostAccumulateGrad;
    int tp = 1;
    const ModelDescription &model() const { return workspace->model; }
    const Upstream &upstream() const { return workspace->upstream; }
};

Result<std::optional<Upstream>> upstreamOf(const CommonOptions &options); // nullopt: not asked for
Result<std::shared_ptr<const Workspace>> loadModel(const CommonOptions &options);
Result<Loaded> load(const CommonOptions &options);
// The same model with another plan or hook mode.
Result<Loaded> load(std::shared_ptr<const Workspace> workspace, const CommonOptions &options);

// Prints "tpscope: message" to stderr and returns the error's exit code.
int report(const Error &error);
// One JSON value and a line feed on stdout; exit code 2 when stdout cannot take it.
int print(const nlohmann::json &json, int exitStatus = 0);

nlohmann::json toJson(const Diagnostic &diagnostic);
nlohmann::json toJson(const LintReport &report);
// "plan.yaml:4:12: error TP101: message" and its fix, a line each.
std::string toText(const Diagnostic &diagnostic, const std::string &planName);
std::string planName(const Loaded &loaded);

// The finding that forbids a run: set when the outcome is rejected or forward-error.
struct Refusal {
    LintReport report;
    std::string message;
};
std::optional<Refusal> refusal(const Loaded &loaded, LintOptions options);
// With the attention and prompts of a run.
std::optional<Refusal> refusal(const Loaded &loaded, const RunConfig &config);

} // namespace tpscope::cli
