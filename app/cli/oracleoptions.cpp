// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/oracleoptions.h"

#include "app/cli/interrupt.h"
#include "app/cli/sinks.h"
#include "app/cli/table.h"
#include "run/oraclemessages.h"

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

} // namespace

void addOracleOptions(CLI::App &verb, OracleOptions &options) {
    addModelOption(verb, options);
    addPlanOptions(verb, options);
    addHookOption(verb, options);
    addFormatOption(verb, options);
    verb.add_option("--backend", options.backend, "gloo: real ranks of this program; transformers: not there yet")
        ->check(CLI::IsMember({"gloo", "transformers"}))
        ->capture_default_str();
    verb.add_option("--micro-steps", options.microSteps, "backwards accumulated per optimizer step")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    verb.add_option("--trainable", options.trainable,
                    "pattern of parameters that are trained, e.g. \"*_norm.weight\"; default: all");
    verb.add_option("--input-ids", options.inputIds, "prompts: ids by commas, rows by semicolons; default: 12 ids");
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
    verb.add_flag("--quiet", options.quiet, "no progress on stderr");
}

Result<OracleAnswer> askOracle(const OracleOptions &options, bool logits, bool gradients) {
    if (options.backend != name(Backend::Gloo))
        return fail(ErrorCode::Unsupported, "--backend " + options.backend +
                                                " is not there yet for this verb; --backend gloo runs native ranks");
#if !TPSCOPE_WITH_EXEC
    return fail(ErrorCode::Unsupported, "this tpscope was built without LibTorch and runs no ranks; build with "
                                        "TPSCOPE_EXEC=ON");
#endif
    const auto loaded = load(options);
    if (!loaded)
        return tl::unexpected(loaded.error());
    auto config = runConfigOf(*loaded, options);
    if (!config)
        return tl::unexpected(config.error());
    OracleRequest request{std::move(*config), logits, gradients, 4, options.microSteps, options.trainable};
    // Loading is not emulated natively: what the loader refuses is a matter of rules.
    if (const auto refused = refusal(*loaded, options.attention);
        refused && refused->report.outcome == Outcome::Rejected)
        return OracleAnswer{std::move(request), refusedReport(*loaded, refused->report)};
    auto sink = CliSink::open({}, options.quiet);
    if (!sink)
        return tl::unexpected(sink.error());
    const Interrupt interrupt;
    const RunInput input = runInputOf(*loaded, request.config);
    auto report = runOracle(input, request, **sink, interrupt.token());
    if (!report)
        return tl::unexpected(report.error());
    return OracleAnswer{std::move(request), std::move(*report)};
}

std::string contextText(const OracleAnswer &answer) {
    const RunConfig &config = answer.request.config;
    if (answer.report.failedStage == oracle::loadStage)
        return "by rule, not run; tp " + std::to_string(config.tp);
    return "measured: tp " + std::to_string(config.tp) + " on gloo against one rank; " + answer.report.attention +
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
