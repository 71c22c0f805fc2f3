// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "run/runconfig.h"

namespace tpscope {

// How a number of a profile came to be.
enum class Origin { Measured, Fitted, Reported, Assumed };
std::string_view name(Origin origin); // "measured", "fitted", "reported", "assumed"

// A number that says where it comes from: "0.40 ms, fitted: (140 - 37.6) ms over 256 extra launches".
struct SourcedNumber {
    double value = 0.0;
    Origin origin = Origin::Assumed;
    std::string basis;
};

// Latency and bandwidth of one kind of collective among `ranks` ranks.
struct CollectiveFigures {
    std::string collective; // "all_reduce", "all_gather"
    std::string transport;  // "gloo", "one-shot" (RunConfig::collectives); "" whatever the run asks for
    int ranks = 2;
    SourcedNumber alphaUs;        // microseconds
    SourcedNumber bandwidthGbS;   // 10^9 bytes a second, b of REFERENCE section 6
};

// The runs a profile was fitted to. What lies outside is extrapolated and said so.
struct FitConditions {
    std::string modelType;
    std::int64_t parameters = 0; // of the model
    std::string dtype;           // torch's name
    int tp = 0;
    int batch = 0;
    bool builtinPlan = true;     // no rule of a plan file
    std::vector<int> decodeLaunches;
};

// What the cost model knows of a machine (REFERENCE section 6): t = bytes / (eta BW) + collectives + kernels t_k +
// launches t_g. All numbers are of one rank.
struct HardwareProfile {
    std::string name;
    std::string title;
    std::string machine;
    SourcedNumber memoryBandwidthGbS;                // BW, 10^9 bytes a second
    std::map<std::string, SourcedNumber> efficiency; // eta by torch dtype; "any" for the others
    SourcedNumber computeGflopS;                     // 10^9 multiply or add operations a second; bounds prefill
    SourcedNumber kernelUs;                          // t_k, microseconds a kernel
    SourcedNumber launchUs;                          // t_g, microseconds a graph launch
    std::optional<SourcedNumber> recompileLimit;     // replaces RunConfig::recompileLimit for the capture
    std::vector<CollectiveFigures> collectives;
    std::optional<FitConditions> fit;
    std::vector<std::string> statements;             // what it was made from, for people

    // Bytes a second that reading weights of this dtype reaches: eta BW.
    double effectiveBandwidth(const std::string &torchDtype) const;
    // The figures for this many ranks, else those of the nearest measured number; nullptr: none for this collective.
    const CollectiveFigures *figures(std::string_view collective, Collectives transport, int ranks) const;
};

// A bundled profile by name ("cpu-gloo") or a JSON file. Errors: NotFound (lists the bundled ones), BadInput.
Result<HardwareProfile> loadProfile(const std::string &nameOrFile);
Result<HardwareProfile> profileFromJson(const nlohmann::json &json, const std::string &where);
std::vector<std::string> bundledProfileNames(); // sorted

} // namespace tpscope
