// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/runoptions.h"
#include "run/oracle.h"

namespace tpscope::cli {

// What verify and gradcheck share.
struct OracleOptions : RunOptions {
    int microSteps = 1;
    std::vector<std::string> trainable;
};

void addOracleOptions(CLI::App &verb, OracleOptions &options);

struct OracleAnswer {
    OracleRequest request;
    OracleReport report;
};

// Opens model and plan and runs the oracle. A plan that transformers refuses at load is not run: its report says so.
// Errors: as load() and runOracle(), Unsupported for a backend that is not there yet.
Result<OracleAnswer> askOracle(const OracleOptions &options, bool logits, bool gradients);

// "measured on 2 gloo ranks against one; sdpa, float32, hooks post-accumulate-grad"
std::string contextText(const OracleAnswer &answer);
// A line for the total gradient norm, then a table of wrong parameters, or of all, identical layers folded.
std::string gradientText(const GradientReport &report, bool all);

} // namespace tpscope::cli
