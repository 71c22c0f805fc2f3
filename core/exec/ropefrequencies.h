// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "model/modelconfig.h"

namespace tpscope {

// Rotary frequencies of one kind of layer, computed in float32 as transformers does.
struct RopeFrequencies {
    std::vector<float> inverse;   // one a pair of channels: half the rotated width
    float attentionScaling = 1.0F; // multiplies cos and sin (yarn)
};

// headDim: channels that rotate. maxPositions: max_position_embeddings.
// Errors: Unsupported, a rope type that is not implemented; BadInput, one of its numbers is missing.
// Source: transformers 5.24, modeling_rope_utils.py, _compute_*_parameters.
Result<RopeFrequencies> ropeFrequencies(const RopeParameters &rope, std::int64_t headDim, std::int64_t maxPositions);

} // namespace tpscope
