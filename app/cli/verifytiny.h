// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/oracleoptions.h"

namespace tpscope::cli {

// `verify --tiny`: a tiny twin of a model, or of a model type or class that the given transformers has, at tp N against
// one process. Prints and returns the exit status.
int runVerifyTiny(const OracleOptions &options);

} // namespace tpscope::cli
