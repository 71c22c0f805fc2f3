// SPDX-License-Identifier: GPL-3.0-or-later
// Glm4ForCausalLM, transformers 5.24 models/glm4/modeling_glm4.py: norms on both sides of attention and MLP, one projection
// for gate and up, a part of each head rotates by pairs of neighbours.
#include "arch/glm4.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeGlm4(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Glm4";
    facts.pythonFile = "modeling_glm4.py";
    blocks::ConfigReads reads(config);
    facts.attentionBias = reads.flag("attention_bias", true);
    const std::int64_t inner = reads.count("intermediate_size", 13696);
    const std::string activation = reads.text("hidden_act", "silu");
    facts.defaultHeadDim = 128;
    facts.rotary = blocks::readRotary(config, reads, facts.defaultHeadDim, 0.5);
    if (reads.failed())
        return reads.error();
    facts.interleave = true;
    facts.normEps = 1.5625e-07;
    facts.normAfterAttention = "post_self_attn_layernorm";
    facts.normAfterMlp = "post_mlp_layernorm";
    facts.modelDeprecateKwarg = blocks::DecoratorPlace::Outermost;
    facts.addMlp = [inner, activation](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        b.packedMlp(layer, "mlp", b.model.dims.hidden, inner, activation);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
