// SPDX-License-Identifier: GPL-3.0-or-later
// Olmo2ForCausalLM, transformers 5.24 models/olmo2/modeling_olmo2.py: norms behind attention and MLP, q_norm and k_norm
// over the whole projections.
#include "arch/olmo2.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeOlmo2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Olmo2";
    facts.pythonFile = "modeling_olmo2.py";
    const auto bias = config.flag("attention_bias", false);
    if (!bias)
        return tl::unexpected(bias.error());
    facts.attentionBias = facts.outputBias = *bias;
    facts.qkNorm = blocks::QkNorm::Projection;
    facts.normBeforeAttention = facts.normBeforeMlp = "";
    facts.normAfterAttention = "post_attention_layernorm";
    facts.normAfterMlp = "post_feedforward_layernorm";
    facts.normEps = 1e-5;
    facts.modelDeprecateKwarg = blocks::DecoratorPlace::Outermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
