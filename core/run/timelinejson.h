// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "run/runtrace.h"

namespace tpscope {

// The events of a trace and the names they refer to, as columns; null when the trace kept none. Of more than
// mostStoredEvents the first of each rank are written, and "left_out" counts the others.
constexpr std::size_t mostStoredEvents = 400'000;
nlohmann::json timelineJson(const RunTrace &trace);
// Fills ranks, moduleNames and opNames. Errors: BadInput with the key.
Result<void> readTimeline(const nlohmann::json &json, const std::string &where, RunTrace &trace);

} // namespace tpscope
