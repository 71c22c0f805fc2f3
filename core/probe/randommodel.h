// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "model/modeldescription.h"

namespace tpscope {

// Makes folder and writes config.json and model.safetensors (float32) into it: the random model of
// this seed, the very numbers every other backend computes with, so that their outputs can be
// compared. Blocking; thread-safe. Errors: Unsupported when the weights would take more than half
// of the free memory or more than the free space of the folder's disk (sizes in the message),
// RunFailed when a file cannot be written.
Result<void> writeRandomModel(const ModelDescription &model, std::uint64_t seed,
                              const std::filesystem::path &folder);

} // namespace tpscope
