// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "run/decoderunner.h"
#include "run/hardwareprofile.h"

// What a simulated trace says of itself.
namespace tpscope {

// In which ways a run lies outside what a profile was fitted to; empty: within. launches: of one decode step.
std::vector<std::string> extrapolations(const HardwareProfile &profile, const RunInput &input, int batch,
                                        int launches);

// "memory bandwidth 218.6 GB/s - fitted: ...", one line a number of the profile, with its source.
std::vector<std::string> profileStatements(const HardwareProfile &profile);

Environment simulatedEnvironment(const HardwareProfile &profile, const RunInput &input,
                                 const std::vector<std::string> &extrapolated);

} // namespace tpscope
