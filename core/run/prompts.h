// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "run/runconfig.h"

namespace tpscope {

// A batch as the model takes it: shorter prompts are padded on the left. No position of a prompt sees the padding, and
// positions count from a prompt's own first token, as transformers' generate() counts them from an attention mask.
struct PromptBatch {
    std::int64_t rows = 0;
    std::int64_t tokens = 0;            // of the longest prompt
    std::vector<std::int64_t> ids;      // [rows * tokens]; padding is id 0
    std::vector<std::int64_t> padding;  // [rows] positions in front of each prompt; empty: none has any

    static PromptBatch of(const std::vector<std::vector<std::int64_t>> &prompts);
};

// What lint must know of the prompts: how long they are, and whether a mask tells them apart.
void describePrompts(const RunConfig &config, LintOptions &options);

// Errors: Usage: none, an empty one, ids outside the vocabulary (0: unknown).
Result<void> checkPrompts(const RunConfig &config, std::int64_t vocabulary);

} // namespace tpscope
