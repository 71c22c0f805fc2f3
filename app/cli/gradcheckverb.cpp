// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/oracleoptions.h"
#include "app/cli/verbs.h"

namespace tpscope::cli {
namespace {

void printText(const OracleAnswer &answer) {
    const OracleReport &report = answer.report;
    const bool exact = report.gradients && report.gradients->exact();
    std::cout << (exact ? "exact" : "wrong") << " (" << contextText(answer) << ")\n";
    std::cout << failureText(report);
    if (report.gradients)
        std::cout << gradientText(*report.gradients, true);
    std::cout << remarksText(answer);
}

int runGradcheck(const OracleOptions &options) {
    const auto answer = askOracle(options, false, true);
    if (!answer)
        return report(answer.error());
    return finishOracle(*answer, gradientsToJson(answer->report, answer->request), options,
                        [&] { printText(*answer); });
}

} // namespace

void addGradcheckVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<OracleOptions>();
    CLI::App *verb = app.add_subcommand(
        "gradcheck", "Compare every parameter's gradient on real ranks with one rank, and say why one is wrong.");
    addOracleOptions(*verb, *options);
    verb->footer("ratio: projection of the gradient on what one rank accumulates; 1 is exact.\n"
                 "Example: tpscope gradcheck --model qwen3-tiny --tp 2 --micro-steps 2\n"
                 "Exit status: 0 exact, 1 wrong, 2 unreadable input, 3 the run failed, 130 cancelled.");
    verb->callback([options, &exitStatus] { exitStatus = runGradcheck(*options); });
}

} // namespace tpscope::cli
