// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/oracleoptions.h"

#include "app/cli/interrupt.h"
#include "app/cli/sinks.h"
#include "app/cli/table.h"
#include "probe/transformersoracle.h"
#include "run/oraclemessages.h"
#include "run/prompts.h"

namespace tpscope::cli {
namespace {

// Each error of the findings, a line each.
OracleReport refusedReport(const Loaded &loaded, const LintReport &lint) {
    OracleReport report;
    report.failedStage = oracle::loadStage;
    report.attention = lint.attention;
    report.dtype = lint.dtype;
    report.environment = currentEnvironment();
    for (const Diagnostic &diagnostic : lint.diagnostics)
        if (diagnostic.severity == Severity::Error)
            report.failure += (report.failure.empty() ? "" : "\n") + toText(diagnostic, planName(loaded));
    return report;
}

std::string significant(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", number);
    return text;
}

std::string ratioText(const ParameterGradient &parameter) {
    return parameter.ratio ? fixed(*parameter.ratio, 4) : "-";
}

bool isWrong(const OracleReport &report) { return report.verdict != OracleReport::Verdict::Right; }

// What lint says about a plan that is wrong.
std::vector<Diagnostic> findingsOf(const Loaded &loaded, const OracleRequest &request) {
    LintOptions options;
    options.upstream = loaded.upstream();
    options.attention = request.config.attention;
    options.train = request.gradients;
    options.microSteps = request.microSteps;
    options.trainable = request.trainable;
    options.hooks = name(request.config.hooks);
    describePrompts(request.config, options);
    const LintReport report =
        lint(loaded.model(), loaded.choice, loaded.workspace->builtinOrNull(), loaded.tp, options);
    std::vector<Diagnostic> findings;
    for (const Diagnostic &diagnostic : report.diagnostics)
        if (diagnostic.severity == Severity::Error)
            findings.push_back(diagnostic);
    return findings;
}

Result<OracleReport> askGloo(const Loaded &loaded, const OracleRequest &request, EventSink &sink,
                             std::stop_token stop) {
#if !TPSCOPE_WITH_EXEC
    return fail(ErrorCode::Unsupported, "this tpscope was built without LibTorch and runs no ranks; build with "
                                        "TPSCOPE_EXEC=ON");
#endif
    // Loading is not emulated natively: what the loader refuses is a matter of rules.
    if (const auto refused = refusal(loaded, request.config);
        refused && refused->report.outcome == Outcome::Rejected)
        return refusedReport(loaded, refused->report);
    return runOracle(runInputOf(loaded, request.config), request, sink, std::move(stop));
}

} // namespace

void addOracleOptions(CLI::App &verb, OracleOptions &options) {
    addModelOption(verb, options);
    addPlanOptions(verb, options);
    addHookOption(verb, options);
    addFormatOption(verb, options);
    verb.add_option("--backend", options.backend, "gloo: real ranks of this program; transformers: ranks of the real library")
        ->check(CLI::IsMember({"gloo", "transformers"}))
        ->capture_default_str();
    verb.add_option("--micro-steps", options.microSteps, "backwards accumulated per optimizer step")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    verb.add_option("--trainable", options.trainable,
                    "pattern of parameters that are trained, e.g. \"*_norm.weight\"; default: all");
    verb.add_flag("--gradient-checkpointing", options.gradientCheckpointing,
                  "layers are computed again in the backward");
    verb.add_option("--python", options.python,
                    "transformers: a Python, a virtual environment or a working copy of transformers");
    verb.add_option("--input-ids", options.inputIds,
                    "prompts: ids by commas, rows by semicolons, shorter ones padded on the left; default: 12 ids");
    verb.add_option("--collectives", options.collectives, "how ranks exchange messages")
        ->check(CLI::IsMember({"gloo", "one-shot"}))
        ->capture_default_str();
    verb.add_option("--seed", options.seed, "seed of random weights");
    verb.add_option("--threads", options.threads, "threads per rank")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    verb.add_option("--timeout", options.timeoutSeconds, "seconds until it is ended")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    verb.add_option("--port", options.port, "port of the ranks' rendezvous on loopback; default: a free one")
        ->check(CLI::Range(1, 65535));
    verb.add_option("--events", options.events, "write progress and the result as NDJSON to a file, - for stdout");
    verb.add_flag("--quiet", options.quiet, "no progress on stderr");
}

Result<OracleAnswer> askOracle(const OracleOptions &options, bool logits, bool gradients) {
    const auto loaded = load(options);
    if (!loaded)
        return tl::unexpected(loaded.error());
    auto config = runConfigOf(*loaded, options);
    if (!config)
        return tl::unexpected(config.error());
    OracleRequest request{std::move(*config), logits, gradients, 4, options.microSteps, options.trainable,
                          options.gradientCheckpointing, options.python};
    if (loaded->model().dims.vocab <= 0 && options.inputIds.empty())
        request.config.inputIds.clear(); // of a family nobody described: the library knows its vocabulary
    auto sink = CliSink::open(options.events, options.quiet);
    if (!sink)
        return tl::unexpected(sink.error());
    const Interrupt interrupt;
    auto report = request.config.backend == Backend::Transformers
                      ? runTransformersOracle(runInputOf(*loaded, request.config), request, **sink, interrupt.token())
                      : askGloo(*loaded, request, **sink, interrupt.token());
    if (!report)
        return tl::unexpected(report.error());
    if (report->gradients)
        report->predictedCollectives = predictCollectives(runInputOf(*loaded, request.config), request);
    OracleAnswer answer{std::move(request), std::move(*report), {}, planName(*loaded), std::move(*sink)};
    if (isWrong(answer.report))
        answer.findings = findingsOf(*loaded, answer.request);
    return answer;
}

int finishOracle(const OracleAnswer &answer, nlohmann::json json, const OracleOptions &options,
                 const std::function<void()> &printText) {
    json["findings"] = nlohmann::json::array();
    for (const Diagnostic &diagnostic : answer.findings)
        json["findings"].push_back(toJson(diagnostic));
    const int exitStatus = isWrong(answer.report) ? 1 : 0;
    if (const auto finished = answer.sink->finish(json); !finished)
        return report(finished.error());
    if (answer.sink->streamsToStdout())
        return exitStatus;
    if (options.json())
        return print(json, exitStatus);
    printText();
    return exitStatus;
}

std::string failureText(const OracleReport &report) {
    if (report.failedStage.empty())
        return {};
    return "at " + report.failedStage + (report.failureRank ? ", rank " + std::to_string(*report.failureRank) : "") +
           ": " + (report.failureKind.empty() ? "" : report.failureKind + ": ") + report.failure + "\n";
}

std::string remarksText(const OracleAnswer &answer) {
    std::string out;
    // A plan refused by rule has said them.
    if (answer.report.failedStage != oracle::loadStage || answer.request.config.backend != Backend::Gloo)
        for (const Diagnostic &diagnostic : answer.findings)
            out += "by rule: " + toText(diagnostic, answer.planName) + "\n";
    for (const std::string &statement : answer.report.statements)
        out += "note: " + statement + "\n";
    return out;
}

std::string contextText(const OracleAnswer &answer) {
    const RunConfig &config = answer.request.config;
    if (answer.report.failedStage == oracle::loadStage && config.backend == Backend::Gloo)
        return "by rule, not run; tp " + std::to_string(config.tp);
    return "measured: tp " + std::to_string(config.tp) + " on " + std::string(name(config.backend)) +
           " against one rank; " + answer.report.attention +
           ", " + answer.report.dtype + ", hooks " + std::string(name(config.hooks));
}

std::string gradientText(const GradientReport &report, bool all) {
    std::string out = "gradient norm: " + significant(report.reportedNorm) + " as training sees it, " +
                      significant(report.trueNorm) + " in truth (" + std::to_string(report.microSteps) +
                      (report.microSteps == 1 ? " backward)\n" : " backwards)\n");
    Table table({"parameter", "layers", "ratio", "max abs error", "reductions", "verdict"},
                {Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left});
    std::string reasons;
    bool any = false;
    for (const GradientFold &fold : foldLayers(report)) {
        const ParameterGradient &parameter = *fold.first;
        if (!all && !parameter.cause)
            continue;
        any = true;
        table.add({fold.name, std::to_string(fold.count), ratioText(parameter), significant(fold.maxAbsError),
                   std::to_string(parameter.reductions),
                   parameter.cause ? "wrong: " + std::string(name(*parameter.cause)) : "exact"});
        const std::string reason =
            parameter.cause ? std::string(name(*parameter.cause)) + ": " + parameter.explanation + "\n" : "";
        if (reasons.find(reason) == std::string::npos)
            reasons += reason;
    }
    return any ? out + table.text() + reasons : out;
}

} // namespace tpscope::cli
