// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/modelconfig.h"

namespace tpscope {

// What --model names: a folder with config.json, a config.json alone (weights are then random, also
// when files lie beside it), a bundled name, or a hub id in the local cache. Looked for in this
// order; a folder without config.json may still be a bundled name.
struct ModelSource {
    std::string argument;
    std::filesystem::path configPath;
    std::filesystem::path
        folder; // with safetensors; empty: config alone, weights are random by seed
    // As transformers chooses them: model.safetensors, else the files of the index, in its order;
    // else all shards model-*-of-*.safetensors, else every *.safetensors of the folder.
    std::vector<std::filesystem::path> weightFiles;
    std::filesystem::path indexPath; // model.safetensors.index.json, when weightFiles come from it
    // Set when the folder has weights, but only in a format that is not read (pytorch_model.bin):
    // what needs the weights fails with this instead of inventing some.
    std::optional<Error> unreadableWeights;
    bool bundled = false;
    bool hasWeights() const { return !weightFiles.empty(); }
};

// Errors: Usage (empty), NotFound (lists bundled names near it), BadInput (folder without
// config.json, index naming missing files or files outside the folder, missing shards).
Result<ModelSource> findModel(const std::string &argument);
std::vector<std::string> bundledModelNames(); // sorted

} // namespace tpscope
