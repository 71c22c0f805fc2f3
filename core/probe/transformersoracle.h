// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>

#include "probe/proberequest.h"
#include "run/oracle.h"

namespace tpscope {

// runOracle() (run/oracle.h) with the real transformers library: resources/probe/probe_oracle.py on config.tp processes
// that meet through Gloo. The probe measures, the same rules judge. Needs a Python with torch and transformers; hook
// modes that its version does not have are emulated, and the report's statements say so. A plan that the library
// refuses, or whose forward or backward raises, is a report with the library's own words. Works for models without a
// described flow too; no prompt means ids of the model's vocabulary. Blocking.
// Errors: Usage (prompts), BadInput (the model cannot be read), Unsupported (no such Python; random weights too
// large), RunFailed (one process fails without any plan, a rank died, time-out), Cancelled.
Result<OracleReport> runTransformersOracle(const RunInput &input, const OracleRequest &request, EventSink &sink,
                                           std::stop_token stop);

// What the probe left for such a request, whatever its stage. Errors: those of the request, Unsupported, RunFailed,
// Cancelled.
Result<nlohmann::json> runProbeOracle(const OracleRequest &request,
                                      const std::function<Result<nlohmann::json>(const ProbePaths &)> &ask,
                                      EventSink &sink, std::stop_token stop);

// The report of what the probe left, complete or failed. Errors: as above.
Result<OracleReport> oracleReportOf(const nlohmann::json &result, const OracleRequest &request, DType dtype);

} // namespace tpscope
