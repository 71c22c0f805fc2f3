// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "run/oracle.h"

namespace tpscope {

// Files of one probe, all in a private folder.
struct ProbePaths {
    std::filesystem::path folder;
    std::filesystem::path request() const { return folder / "request.json"; }
    std::filesystem::path result() const { return folder / "result.json"; }
    std::filesystem::path events() const { return folder / "events.ndjson"; }
    std::filesystem::path go() const { return folder / "go"; }
    std::filesystem::path logits() const { return folder / "logits.safetensors"; }
    std::filesystem::path weights() const { return folder / "weights"; }
    std::filesystem::path temporary() const {
        return folder / "tmp";
    } // TMPDIR of all its processes
    std::filesystem::path output() const { return folder / "stdout"; }
    std::filesystem::path errors() const { return folder / "stderr"; }
};

// The request of resources/probe/tpscope_probe.py (described at its top). waitForGo: the caller
// permits each repeat. Writes random weights into paths.weights() when the model is a config alone:
// the same numbers as every other backend. Errors: Unsupported (random weights larger than the
// memory at hand), BadInput (the plan's document), RunFailed.
Result<nlohmann::json> probeRequest(const RunInput &input, const ProbePaths &paths, bool waitForGo);

// The same for a comparison with one process (resources/probe/probe_oracle.py). Errors: as above.
Result<nlohmann::json> oracleProbeRequest(const RunInput &input, const OracleRequest &request,
                                          const ProbePaths &paths);
// The same with a tiny twin instead of a model. Errors: BadInput (the plan's document).
struct TwinRequest;
Result<nlohmann::json> twinProbeRequest(const TwinRequest &request, const ProbePaths &paths);

} // namespace tpscope
