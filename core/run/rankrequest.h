// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "run/runconfig.h"

namespace tpscope {

// A run as a rank is told it: everything that decides the run. The rank builds model and plan from it itself.
nlohmann::json requestToJson(const RunConfig &config);
// Errors: BadInput naming the key that is missing, of the wrong type or out of range.
Result<RunConfig> requestFromJson(const nlohmann::json &json);

} // namespace tpscope
