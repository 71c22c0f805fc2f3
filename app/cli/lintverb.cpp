// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/text.h"

namespace tpscope::cli {
namespace {

struct LintVerbOptions : CommonOptions {
    bool train = false;
    int microSteps = 1;
    std::vector<std::string> trainable;
};

std::string join(const std::vector<int> &numbers) {
    std::string out;
    for (const int number : numbers)
        out += (out.empty() ? "" : " ") + std::to_string(number);
    return out.empty() ? "none" : out;
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

int runLint(const LintVerbOptions &options) {
    const auto loaded = load(options);
    if (!loaded)
        return report(loaded.error());
    LintOptions lintOptions;
    lintOptions.train = options.train;
    lintOptions.microSteps = options.microSteps;
    lintOptions.attention = options.attention;
    lintOptions.hooks = name(loaded->hooks);
    lintOptions.trainable = options.trainable;
    lintOptions.upstream = loaded->upstream();
    const LintReport report =
        lint(loaded->model(), loaded->choice, loaded->workspace->builtinOrNull(), loaded->tp, lintOptions);
    const int exitStatus = report.errors() > 0 ? 1 : 0;
    if (options.json())
        return print(toJson(report), exitStatus);
    printText(*loaded, report);
    return exitStatus;
}

} // namespace

void addLintVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<LintVerbOptions>();
    CLI::App *verb = app.add_subcommand("lint", "Say what transformers does with a plan, before it is run.");
    addModelOption(*verb, *options);
    addPlanOptions(*verb, *options);
    addHookOption(*verb, *options);
    addFormatOption(*verb, *options);
    verb->add_flag("--train", options->train, "check gradients too");
    verb->add_option("--micro-steps", options->microSteps, "backwards accumulated per optimizer step")
        ->check(CLI::Range(1, 1024));
    verb->add_option("--trainable", options->trainable, "pattern of parameters that are trained; default: all");
    verb->footer("Example: tpscope lint --model qwen3-8b --plan my-plan.yaml --tp 4 --train\n"
                 "Exit status: 0 no errors, 1 errors found, 2 unreadable input.");
    verb->callback([options, &exitStatus] { exitStatus = runLint(*options); });
}

} // namespace tpscope::cli
