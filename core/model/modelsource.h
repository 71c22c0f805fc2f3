// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/modelconfig.h"

namespace tpscope {

// What --model names: a folder, a config.json, a bundled name, or a hub id in the local cache.
struct ModelSource {
    std::string argument;
    std::filesystem::path configPath;
    std::filesystem::path folder;     // with safetensors; empty: config alone, weights are random by seed
    std::vector<std::filesystem::path> weightFiles; // in index order
    bool bundled = false;
    bool hasWeights() const { return !weightFiles.empty(); }
};

// Errors: NotFound (lists bundled names near it), BadInput (folder without config.json, index naming missing files).
Result<ModelSource> findModel(const std::string &argument);
std::vector<std::string> bundledModelNames();

} // namespace tpscope
