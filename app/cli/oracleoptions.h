// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <memory>

#include "app/cli/runoptions.h"
#include "app/cli/sinks.h"
#include "run/oracle.h"

namespace tpscope::cli {

// What verify and gradcheck share.
struct OracleOptions : RunOptions {
    int microSteps = 1;
    std::vector<std::string> trainable;
    bool gradientCheckpointing = false;
    std::string python;
};

void addOracleOptions(CLI::App &verb, OracleOptions &options);

struct OracleAnswer {
    OracleRequest request;
    OracleReport report;
    std::vector<Diagnostic> findings; // by rule, of a verdict that is not right: errors of the plan
    std::string planName;
    std::unique_ptr<CliSink> sink;
};

// Opens model and plan and runs the oracle. Natively, a plan that transformers refuses at load is not run: its report
// says so. Errors: as load(), runOracle() and runTransformersOracle(), Unsupported for what a backend cannot do.
Result<OracleAnswer> askOracle(const OracleOptions &options, bool logits, bool gradients);

// Adds the findings to the report's JSON, ends the event stream and prints. Returns the exit status.
int finishOracle(const OracleAnswer &answer, nlohmann::json json, const OracleOptions &options,
                 const std::function<void()> &printText);
// Where the plan raised and what it said, a line; "" it did not.
std::string failureText(const OracleReport &report);
// Findings and statements, a line each.
std::string remarksText(const OracleAnswer &answer);
// "measured on 2 gloo ranks against one; sdpa, float32, hooks post-accumulate-grad"
std::string contextText(const OracleAnswer &answer);
// A line for the total gradient norm, then a table of wrong parameters, or of all, identical layers folded.
std::string gradientText(const GradientReport &report, bool all);

} // namespace tpscope::cli
