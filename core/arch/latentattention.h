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
    bool positionScale = false; // queries times a factor of their positions
    double scaling = 1.0;
    std::int64_t query() const { return nope + rope; }
};

// Widths of a config that names none.
struct LatentWidths {
    std::int64_t queryRank = 1536, keyRank = 512, rope = 64, nope = 128, value = 128;
};
// Errors are kept in reads.
LatentAttention readLatentAttention(const ModelConfig &config, ConfigReads &reads, const LatentWidths &defaults = {});
// self_attn of a layer, with its programs.
void addLatentAttention(Builder &b, ModuleIndex layer, std::int64_t index, const LatentAttention &l);
// DeepSeek's decoder layers, and of those who took them over: latent attention, then a dense MLP in the first `dense`
// layers and experts in the others.
void useLatentMoe(DecoderFacts &facts, const LatentAttention &latent, const MoeFacts &moe, std::int64_t dense);

} // namespace tpscope::blocks
