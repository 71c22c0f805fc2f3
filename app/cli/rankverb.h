// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <CLI/CLI.hpp>

namespace tpscope::cli {

// `tpscope rank`: one rank's worker; takes its place and its work from the environment.
void addRankVerb(CLI::App &app, int &exitStatus);

} // namespace tpscope::cli
