// SPDX-License-Identifier: GPL-3.0-or-later
#include <cmath>
#include <iostream>

#include "app/cli/oracleoptions.h"
#include "app/cli/verifytiny.h"
#include "app/cli/verbs.h"

namespace tpscope::cli {
namespace {

struct VerifyVerbOptions : OracleOptions {
    bool train = false;
    bool tiny = false;
};

std::string shapeText(const std::vector<std::int64_t> &shape) {
    std::string out = "[";
    for (const std::int64_t size : shape)
        out += (out.size() > 1 ? ", " : "") + std::to_string(size);
    return out + "]";
}

std::string numberText(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", number);
    return text;
}

std::string logitText(const LogitComparison &logits, int steps) {
    if (logits.shapesDiffer)
        return "logits: expected the shape " + shapeText(logits.expectedShape) + ", found " +
               shapeText(logits.foundShape) + "\n";
    std::string out = "logits: largest error " + numberText(logits.maxAbsError) + " (rounding may take " +
                      numberText(logits.tolerance) + ") over the prefill and " + std::to_string(steps) +
                      " decode steps";
    if (logits.wrongStep)
        out += *logits.wrongStep < 0 ? "; wrong from the prefill on"
                                     : "; wrong from decode step " + std::to_string(*logits.wrongStep + 1) + " on";
    return out + "\n";
}

std::string divergenceText(const Divergence &divergence) {
    std::string out = "first diverging: " + divergence.module + " (" + divergence.operation + "), rank " +
                      std::to_string(divergence.rank) + ": ";
    if (divergence.expected)
        return out + "expected " + numberText(*divergence.expected) + ", found " + numberText(*divergence.found) +
               " at " + shapeText(divergence.index) + "\n";
    return out + "expected the shape " + shapeText(divergence.expectedShape) + ", found " +
           shapeText(divergence.foundShape) + "\n";
}

void printText(const OracleAnswer &answer) {
    const OracleReport &report = answer.report;
    std::cout << name(report.verdict) << " (" << contextText(answer) << ")\n";
    std::cout << failureText(report);
    if (report.logits)
        std::cout << logitText(*report.logits, answer.request.decodeSteps);
    if (report.divergence)
        std::cout << divergenceText(*report.divergence);
    if (report.gradients)
        std::cout << "gradients: " << (report.gradients->exact() ? "exact" : "wrong") << '\n'
                  << gradientText(*report.gradients, false);
    else if (report.failedStage.empty())
        std::cout << "gradients: not checked"
                  << (answer.request.gradients ? ", since the logits are wrong\n" : " (--train)\n");
    std::cout << remarksText(answer);
}

int runVerify(const VerifyVerbOptions &options) {
    if (options.tiny)
        return runVerifyTiny(options);
    const auto answer = askOracle(options, true, options.train);
    if (!answer)
        return report(answer.error());
    return finishOracle(*answer, toJson(answer->report, answer->request), options, [&] { printText(*answer); });
}

} // namespace

void addVerifyVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<VerifyVerbOptions>();
    CLI::App *verb =
        app.add_subcommand("verify", "Run a plan on real ranks and compare with one rank: logits and gradients.");
    addOracleOptions(*verb, *options);
    verb->add_flag("--train", options->train, "compare every gradient too");
    verb->add_flag("--tiny", options->tiny,
                   "transformers: a tiny twin of the model, or of any model type or class of the library");
    verb->footer("Example: tpscope verify --model qwen3-tiny --plan my-plan.yaml --tp 2 --train\n"
                 "         tpscope verify --model OlmoeForCausalLM --backend transformers --tiny --python ~/transformers\n"
                 "Exit status: 0 right, 1 wrong or the plan fails, 2 unreadable input, 3 the run failed, "
                 "130 cancelled.");
    verb->callback([options, &exitStatus] { exitStatus = runVerify(*options); });
}

} // namespace tpscope::cli
