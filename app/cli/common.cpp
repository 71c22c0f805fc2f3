// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/common.h"

#include <cstdio>
#include <iostream>

#include "run/prompts.h"

namespace tpscope::cli {

void addModelOption(CLI::App &verb, CommonOptions &options) {
    verb.add_option("--model", options.model,
                    "model folder, config.json, bundled name (see `tpscope models`) or hub id in the local cache")
        ->required();
}

void addPlanOptions(CLI::App &verb, CommonOptions &options) {
    verb.add_option("--plan", options.plan, "plan file, auto (the model's built-in plan) or none")
        ->capture_default_str();
    verb.add_option("--tp", options.tp, "tensor-parallel size; default: the plan's tp_size, else 2");
    verb.add_option("--ep", options.ep,
                    "ranks that share the experts (the tp ranks: N or 1); default: the plan's ep_size, else 1");
    verb.add_option("--upstream", options.upstream, "transformers version whose rules apply, 5.21 to 5.24");
    verb.add_option("--attention", options.attention, "attention implementation; default: the model's (sdpa)")
        ->check(CLI::IsMember({"sdpa", "eager"}));
}

void addHookOption(CLI::App &verb, CommonOptions &options) {
    verb.add_option("--hooks", options.hooks,
                    "none, module-backward (transformers <= 5.21), post-accumulate-grad (5.22 on, default) or "
                    "tensor-grad");
}

void addFormatOption(CLI::App &verb, CommonOptions &options, std::vector<std::string> formats) {
    verb.add_option("--format", options.format, "output on stdout")
        ->check(CLI::IsMember(std::move(formats)))
        ->capture_default_str();
}

Result<std::optional<Upstream>> upstreamOf(const CommonOptions &options) {
    if (!options.upstream)
        return std::nullopt;
    const auto upstream = Upstream::parse(*options.upstream);
    if (!upstream)
        return tl::unexpected(upstream.error());
    return *upstream;
}

Result<std::shared_ptr<const Workspace>> loadModel(const CommonOptions &options) {
    const auto upstream = upstreamOf(options);
    if (!upstream)
        return tl::unexpected(upstream.error());
    return openWorkspace(options.model, *upstream);
}

Result<Loaded> load(std::shared_ptr<const Workspace> workspace, const CommonOptions &options) {
    const auto hooks =
        options.hooks ? parseHookMode(*options.hooks) : Result<HookMode>(hookModeOf(workspace->upstream));
    if (!hooks)
        return tl::unexpected(hooks.error());
    auto choice = PlanChoice::parse(options.plan);
    if (!choice)
        return tl::unexpected(choice.error());
    choice->ep = options.ep;
    const auto tp = effectiveTp(*choice, options.tp);
    if (!tp)
        return tl::unexpected(tp.error());
    Loaded loaded{std::move(workspace), std::move(*choice), {}, *hooks, *tp};
    loaded.plan = resolvePlan(loaded.model(), loaded.choice, loaded.workspace->builtinOrNull(), loaded.tp);
    return loaded;
}

Result<Loaded> load(const CommonOptions &options) {
    auto workspace = loadModel(options);
    if (!workspace)
        return tl::unexpected(workspace.error());
    return load(std::move(*workspace), options);
}

int report(const Error &error) {
    std::fprintf(stderr, "tpscope: %s\n", error.text().c_str());
    return exitCode(error.code);
}

int print(const nlohmann::json &json, int exitStatus) {
    std::cout << json.dump(1) << '\n' << std::flush;
    if (!std::cout) {
        std::fprintf(stderr, "tpscope: standard output could not be written\n");
        return 2;
    }
    return exitStatus;
}

nlohmann::json toJson(const Diagnostic &diagnostic) {
    nlohmann::json out{{"code", diagnostic.code},
                       {"severity", name(diagnostic.severity)},
                       {"training_only", diagnostic.trainingOnly},
                       {"message", diagnostic.message},
                       {"line", diagnostic.span.line},
                       {"column", diagnostic.span.column},
                       {"rule", diagnostic.rule},
                       {"modules", diagnostic.modules},
                       {"fix", nullptr}};
    if (diagnostic.fix) {
        nlohmann::json edits = nlohmann::json::array();
        for (const TextEdit &edit : diagnostic.fix->edits)
            edits.push_back({{"offset", edit.offset}, {"length", edit.length}, {"text", edit.text}});
        out["fix"] = {{"title", diagnostic.fix->title}, {"edits", std::move(edits)}};
    }
    return out;
}

nlohmann::json toJson(const LintReport &report) {
    nlohmann::json diagnostics = nlohmann::json::array();
    for (const Diagnostic &diagnostic : report.diagnostics)
        diagnostics.push_back(toJson(diagnostic));
    return {{"outcome", name(report.outcome)},
            {"basis", report.basis == Basis::Rule ? "rule" : "executed"},
            {"upstream", report.upstream},
            {"attention", report.attention},
            {"dtype", report.dtype},
            {"errors", report.errors()},
            {"warnings", report.warnings()},
            {"valid_tp_sizes", report.validTpSizes},
            {"sharded_fraction", report.shardedFraction},
            {"bytes_per_rank", report.bytesPerRank},
            {"diagnostics", std::move(diagnostics)}};
}

std::string planName(const Loaded &loaded) {
    return loaded.choice.document ? loaded.choice.document->fileName
           : loaded.choice.kind == PlanChoice::Kind::None ? "none"
                                                          : "auto";
}

std::string toText(const Diagnostic &diagnostic, const std::string &planName) {
    std::string out = planName;
    if (diagnostic.span.valid())
        out += ":" + std::to_string(diagnostic.span.line) + ":" + std::to_string(diagnostic.span.column);
    out += ": " + std::string(name(diagnostic.severity)) + " " + diagnostic.code + ": " + diagnostic.message;
    if (diagnostic.fix)
        out += "\n    fix: " + diagnostic.fix->title;
    return out;
}

std::optional<Refusal> refusal(const Loaded &loaded, const RunConfig &config) {
    LintOptions options;
    options.attention = config.attention;
    describePrompts(config, options);
    return refusal(loaded, std::move(options));
}

std::optional<Refusal> refusal(const Loaded &loaded, LintOptions options) {
    options.upstream = loaded.upstream();
    LintReport report = lint(loaded.model(), loaded.choice, loaded.workspace->builtinOrNull(), loaded.tp, options);
    if (report.outcome != Outcome::Rejected && report.outcome != Outcome::ForwardError)
        return std::nullopt;
    std::string message = "outcome " + std::string(name(report.outcome)) + " at tp " + std::to_string(loaded.tp);
    for (const Diagnostic &diagnostic : report.diagnostics)
        if (diagnostic.severity == Severity::Error)
            message += "\n" + toText(diagnostic, planName(loaded));
    if (!report.validTpSizes.empty()) {
        message += "\nvalid tp sizes:";
        for (const int size : report.validTpSizes)
            message += " " + std::to_string(size);
    }
    return Refusal{std::move(report), std::move(message)};
}

} // namespace tpscope::cli
