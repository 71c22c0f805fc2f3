// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace tpscope {

// model.safetensors.index.json: which file holds which tensor of a checkpoint of many files.
struct WeightIndex {
    struct Entry {
        std::string tensor;
        std::size_t file = 0; // into files
    };
    std::vector<Entry> entries;     // in file order
    std::vector<std::string> files; // as named, in the order of their first tensor

    // A tensor of the file, for messages. file must be an index of files.
    const std::string &firstTensorOf(std::size_t file) const;
};

// Errors: NotFound; BadInput: no valid JSON, no weight_map of texts, a tensor named twice, a file
// name that is absolute or leads outside the folder ("..").
Result<WeightIndex> readWeightIndex(const std::filesystem::path &path);

} // namespace tpscope
