// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "probe/probesession.h"
#include "run/runtrace.h"

namespace tpscope {

// The trace of a complete result (stage "done") of resources/probe/tpscope_probe.py. Everything in
// it is measured. Errors: RunFailed when the result lacks what this version of the probe writes.
Result<RunTrace> traceOfResult(const nlohmann::json &result, const RunConfig &config);

// What is known of a run that ended early, at least one timed repeat: its samples, `partial` = why.
RunTrace partialTrace(const std::vector<ProbeRepeat> &repeats, const RunConfig &config,
                      const std::string &why);

// The graph numbers of a result's "graphs" object. graph_breaks is explain()'s number, which torch
// defines as the distinct graphs of one prefill minus one.
GraphNumbers graphNumbersOf(const nlohmann::json &graphs);

// Token spans of the repeats on rank 0: the prefill as token -1, then the decode steps, warm-up
// ones included.
std::vector<Event> tokenEvents(const std::vector<ProbeRepeat> &repeats);

} // namespace tpscope
