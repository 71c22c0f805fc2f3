// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "arch/decoderblocks.h"

namespace tpscope::blocks {

// Multi-head latent attention (DeepSeek): its cache holds the compressed latents. Widths in channels.
struct LatentAttention {
    std::int64_t queryRank = 0; // 0: one q_proj
    std::int64_t keyRank = 0;
    std::int64_t rope = 0;
    std::int64_t nope = 0;
    std::int64_t value = 0;
    bool interleave = true;
    bool bias = false;
    double scaling = 1.0;
    std::int64_t query() const { return nope + rope; }
};

// Errors are kept in reads.
LatentAttention readLatentAttention(const ModelConfig &config, ConfigReads &reads);
// self_attn of a layer, with its programs.
void addLatentAttention(Builder &b, ModuleIndex layer, std::int64_t index, const LatentAttention &l);

} // namespace tpscope::blocks
