// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen3ForCausalLM, transformers 5.24 models/qwen3/modeling_qwen3.py: per-head q_norm and k_norm, masks by layer_types.
#include "arch/qwen3.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeQwen3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen3";
    facts.pythonFile = "modeling_qwen3.py";
    facts.qkNorm = blocks::QkNorm::PerHead;
    const auto bias = config.flag("attention_bias", false);
    if (!bias)
        return tl::unexpected(bias.error());
    facts.attentionBias = facts.outputBias = *bias;
    if (const auto read = blocks::readSwitchedWindow(config, facts); !read)
        return tl::unexpected(read.error());
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
