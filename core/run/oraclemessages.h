// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "run/oracle.h"

// What ranks and launcher of an oracle say to each other: frames (run/rankchannel.h) of these types.
namespace tpscope::oracle {

inline constexpr const char *failureMessage = "oracle-failure";       // any rank: stage, message, secondary
inline constexpr const char *logitsMessage = "oracle-logits";         // rank 0, here and below
inline constexpr const char *gradientsMessage = "oracle-gradients";   // parameters, losses, true_loss
inline constexpr const char *environmentMessage = "oracle-environment"; // versions

inline constexpr const char *loadStage = "load";
inline constexpr const char *forwardStage = "forward";
inline constexpr const char *trainingStage = "training";

nlohmann::json logitsToJson(const LogitComparison &logits, const std::optional<Divergence> &divergence);
// Both throw nlohmann::json::exception.
void readLogits(const nlohmann::json &message, OracleReport &report);
void readGradients(const nlohmann::json &message, int microSteps, DType dtype, OracleReport &report);

} // namespace tpscope::oracle
