// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "arch/decoderblocks.h"

namespace tpscope::blocks {

// Qwen's hybrid decoders: linear attention with a carried state in most layers, attention behind a gate in the others.
struct DeltaNet {
    std::int64_t keyHeads = 16, valueHeads = 32;
    std::int64_t keyDim = 128, valueDim = 128; // channels of a head
    std::int64_t kernel = 4;                   // tokens the convolution sees
    std::string activation = "silu";
    bool fused = true; // in_proj_qkvz and in_proj_ba; else in_proj_qkv, in_proj_z, in_proj_b, in_proj_a
    std::int64_t keys() const { return keyHeads * keyDim; }
    std::int64_t values() const { return valueHeads * valueDim; }
    std::int64_t channels() const { return 2 * keys() + values(); }
};

// Everything both families share: layer types, rotary share, norms, the gated attention. Errors are kept in reads.
DeltaNet readHybrid(const ModelConfig &config, ConfigReads &reads, DecoderFacts &facts);
// Sets facts.addAttention and the names of linear layers.
void addHybrid(DecoderFacts &facts, const DeltaNet &net, double eps);

} // namespace tpscope::blocks
