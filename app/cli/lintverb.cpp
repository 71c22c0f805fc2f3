// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <deque>
#include <filesystem>
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/text.h"
#include "lint/codes.h"
#include "lint/target.h"
#include "report/sarif.h"
#include "run/hardwareprofile.h"

namespace tpscope::cli {
namespace {

struct LintVerbOptions : CommonOptions {
    bool train = false;
    int microSteps = 1;
    std::vector<std::string> trainable;
    bool clipGradNorm = false;
    std::string device;
    std::string target;
    std::vector<std::string> files; // plans, each judged by itself; empty: the one of --plan
    bool sarif() const { return format == "sarif"; }
};

// One plan and what is said of it.
struct Judged {
    Loaded loaded;
    LintReport report;
    nlohmann::json cost; // null: no breaks
};

// "1 2 4", "1 to 64".
std::string join(const std::vector<int> &numbers) {
    constexpr std::size_t worthFolding = 4;
    std::string out;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
            ++last;
        out += (out.empty() ? "" : " ") + std::to_string(numbers[i]);
        if (last + 1 - i >= worthFolding) {
            out += " to " + std::to_string(numbers[last]);
            i = last;
        }
        ++i;
    }
    return out.empty() ? "none" : out;
}

// What the breaks come to: graphs and launches with and without the hooks, and what launches cost by a profile.
nlohmann::json costOfBreaks(const Loaded &loaded, LintReport &report) {
    const auto finding = std::ranges::find(report.diagnostics, code::hooksBreakGraph, &Diagnostic::code);
    if (finding == report.diagnostics.end() || report.outcome == Outcome::Rejected ||
        report.outcome == Outcome::ForwardError || !loaded.model().flowKnown())
        return nullptr;
    CaptureOptions options;
    options.upstream = loaded.upstream();
    const auto with = captureGraphs(loaded.workspace->modelFor(loaded.hooks), loaded.plan, loaded.hooks, options);
    const auto without = captureGraphs(loaded.model(), loaded.plan, HookMode::PostAccumulateGrad, options);
    const auto profile = loadProfile(RunConfig{}.profile);
    if (!with || !without || !profile)
        return nullptr;
    const double cost = (with->decode.launches - without->decode.launches) * profile->launchUs.value / 1000.0;
    finding->message += ": predicted " + std::to_string(with->prefill.graphs) + " graphs instead of " +
                        std::to_string(without->prefill.graphs) + " and " + std::to_string(with->decode.launches) +
                        " launches a token instead of " + std::to_string(without->decode.launches) + ", simulated " +
                        fixed(cost, 2) + " ms a token more (profile " + profile->name + ")";
    return {{"graphs", with->prefill.graphs},
            {"graph_breaks", with->graphBreaks},
            {"launches_per_token", with->decode.launches},
            {"launches_per_token_without", without->decode.launches},
            {"cost_ms_per_token", cost},
            {"profile", profile->name},
            {"source", "graphs and launches predicted, cost simulated"}};
}

void printText(const Loaded &loaded, const LintReport &report) {
    for (const Diagnostic &diagnostic : report.diagnostics)
        std::cout << toText(diagnostic, planName(loaded)) << '\n';
    std::int64_t largest = 0;
    for (const std::int64_t bytes : report.bytesPerRank)
        largest = std::max(largest, bytes);
    std::cout << "outcome: " << name(report.outcome) << " at tp " << loaded.tp << " (transformers " << report.upstream
              << ", " << report.attention << ", " << report.dtype << "; by rule) - " << report.errors() << " errors, "
              << report.warnings() << " warnings\n"
              << "valid tp sizes: " << join(report.validTpSizes) << " - " << fixed(100 * report.shardedFraction, 1)
              << " % of the bytes sharded - " << formatBytes(largest) << " on the largest rank\n";
}

Result<LintOptions> lintOptionsOf(const LintVerbOptions &options) {
    LintOptions out;
    out.train = options.train;
    out.microSteps = options.microSteps;
    out.attention = options.attention;
    out.trainable = options.trainable;
    out.clipsGradients = options.clipGradNorm;
    out.device = options.device;
    if (!options.target.empty()) {
        auto target = loadTarget(options.target);
        if (!target)
            return tl::unexpected(target.error());
        out.target = std::make_shared<const DeploymentTarget>(std::move(*target));
    }
    return out;
}

Result<Judged> judge(std::shared_ptr<const Workspace> workspace, const CommonOptions &options,
                     LintOptions lintOptions) {
    auto loaded = load(std::move(workspace), options);
    if (!loaded)
        return tl::unexpected(loaded.error());
    lintOptions.hooks = name(loaded->hooks);
    lintOptions.upstream = loaded->upstream();
    LintReport report =
        lint(loaded->model(), loaded->choice, loaded->workspace->builtinOrNull(), loaded->tp, lintOptions);
    nlohmann::json cost = costOfBreaks(*loaded, report);
    return Judged{std::move(*loaded), std::move(report), std::move(cost)};
}

nlohmann::json jsonOf(const std::deque<Judged> &all, const LintVerbOptions &options) {
    nlohmann::json reports = nlohmann::json::array();
    for (const Judged &judged : all) {
        reports.push_back(toJson(judged.report));
        if (!judged.cost.is_null())
            reports.back()["cost_of_breaks"] = judged.cost;
        if (!options.files.empty())
            reports.back()["plan"] = planName(judged.loaded);
    }
    return options.files.size() > 1 ? nlohmann::json{{"plans", std::move(reports)}} : reports.at(0);
}

nlohmann::json sarifOf(const std::deque<Judged> &all, const LintVerbOptions &options) {
    std::vector<LintedPlan> plans;
    for (const Judged &judged : all) {
        const auto &document = judged.loaded.choice.document;
        plans.push_back({&judged.report, document ? &*document : nullptr, options.model, judged.loaded.tp});
    }
    return toSarif(plans, TPSCOPE_VERSION, std::filesystem::current_path());
}

int runLint(LintVerbOptions options) {
    const auto lintOptions = lintOptionsOf(options);
    if (!lintOptions)
        return report(lintOptions.error());
    const auto workspace = loadModel(options);
    if (!workspace)
        return report(workspace.error());
    std::deque<Judged> all;
    int exitStatus = 0;
    const std::vector<std::string> named = options.files.empty() ? std::vector{options.plan} : options.files;
    for (const std::string &plan : named) {
        options.plan = plan;
        auto judged = judge(*workspace, options, *lintOptions);
        if (!judged) { // the other plans are judged all the same
            exitStatus = std::max(exitStatus, report(judged.error()));
            continue;
        }
        exitStatus = std::max(exitStatus, judged->report.errors() > 0 ? 1 : 0);
        all.push_back(std::move(*judged));
    }
    if (all.empty())
        return exitStatus;
    if (options.json())
        return print(jsonOf(all, options), exitStatus);
    if (options.sarif())
        return print(sarifOf(all, options), exitStatus);
    for (const Judged &judged : all)
        printText(judged.loaded, judged.report);
    return exitStatus;
}

} // namespace

void addLintVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<LintVerbOptions>();
    CLI::App *verb = app.add_subcommand("lint", "Say what transformers does with a plan, before it is run.");
    addModelOption(*verb, *options);
    addPlanOptions(*verb, *options);
    addHookOption(*verb, *options);
    addFormatOption(*verb, *options, {"text", "json", "sarif"});
    verb->add_option("plans", options->files, "plan files, each judged by itself")->excludes("--plan");
    verb->add_flag("--train", options->train, "check gradients too");
    verb->add_option("--micro-steps", options->microSteps, "backwards accumulated per optimizer step")
        ->check(CLI::Range(1, 1024));
    verb->add_option("--trainable", options->trainable, "pattern of parameters that are trained; default: all");
    verb->add_flag("--clip-grad-norm", options->clipGradNorm,
                   "training clips gradients by their norm (torch's clip_grad_norm_)");
    verb->add_option("--device", options->device, "where ranks run; default: cpu")
        ->check(CLI::IsMember({"cpu", "cuda", "xpu", "npu", "hpu", "mps"}));
    verb->add_option("--target", options->target,
                     "program the plan is also for: vllm, deepspeed or sglang, or NAME@VERSION");
    verb->footer("Example: tpscope lint --model qwen3-8b --plan my-plan.yaml --tp 4 --train\n"
                 "         tpscope lint --model qwen3-8b --tp 4 --format sarif plans/a.yaml plans/b.yaml > lint.sarif\n"
                 "`tpscope explain CODE` says more about a finding.\n"
                 "Exit status: 0 no errors, 1 errors found, 2 unreadable input.");
    verb->callback([options, &exitStatus] { exitStatus = runLint(*options); });
}

} // namespace tpscope::cli
