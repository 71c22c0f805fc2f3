// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <CLI/CLI.hpp>

// One function a verb, each in the file of its name: adds the subcommand to app; its callback sets exitStatus to the
// process exit code (DESIGN "Command line").
namespace tpscope::cli {

void addModelsVerb(CLI::App &app, int &exitStatus);
void addPlansVerb(CLI::App &app, int &exitStatus);
void addLintVerb(CLI::App &app, int &exitStatus);
void addExplainVerb(CLI::App &app, int &exitStatus);
void addShardVerb(CLI::App &app, int &exitStatus);
void addGraphVerb(CLI::App &app, int &exitStatus);
void addRunVerb(CLI::App &app, int &exitStatus);
void addCompareVerb(CLI::App &app, int &exitStatus);
void addDiffVerb(CLI::App &app, int &exitStatus);
void addExportVerb(CLI::App &app, int &exitStatus);
void addVerifyVerb(CLI::App &app, int &exitStatus);
void addGradcheckVerb(CLI::App &app, int &exitStatus);

} // namespace tpscope::cli
