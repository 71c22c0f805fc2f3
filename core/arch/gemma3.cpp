// SPDX-License-Identifier: GPL-3.0-or-later
// Gemma3ForCausalLM (model_type gemma3_text), transformers 5.24 models/gemma3/modeling_gemma3.py: norms on both sides of
// attention and MLP that multiply by 1 + weight, scaled embeddings, one rotary table a layer type.
#include "arch/gemma3.h"

#include <cmath>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

Result<void> refuseUndescribed(const ModelConfig &config) {
    const auto bidirectional = config.flag("use_bidirectional_attention", false);
    if (!bidirectional)
        return tl::unexpected(bidirectional.error());
    if (*bidirectional || config.has("final_logit_softcapping"))
        return fail(ErrorCode::Unsupported,
                    "gemma3_text with use_bidirectional_attention or final_logit_softcapping is not described",
                    Location{config.fileName()});
    return {};
}

} // namespace

Result<ModelDescription> describeGemma3Text(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Gemma3";
    facts.pythonFile = "modeling_gemma3.py";
    facts.modelName = "TextModel";
    if (const auto described = refuseUndescribed(config); !described)
        return tl::unexpected(described.error());
    const auto bias = config.flag("attention_bias", false);
    const auto scalar = config.real("query_pre_attn_scalar", 256);
    const auto hidden = config.integer("hidden_size", 2304);
    if (!bias)
        return tl::unexpected(bias.error());
    if (!scalar)
        return tl::unexpected(scalar.error());
    if (!hidden)
        return tl::unexpected(hidden.error());
    if (const auto read = blocks::readAlternatingWindow(config, 4096, 6, facts); !read)
        return tl::unexpected(read.error());
    facts.attentionBias = facts.outputBias = *bias;
    facts.attentionScale = 1.0 / std::sqrt(*scalar);
    facts.embeddingScale = std::sqrt(static_cast<double>(*hidden));
    facts.qkNorm = blocks::QkNorm::AfterTranspose;
    facts.normOffset = 1.0;
    facts.normAfterAttention = "post_attention_layernorm";
    facts.normBeforeMlp = "pre_feedforward_layernorm";
    facts.normAfterMlp = "post_feedforward_layernorm";
    facts.activationKey = "hidden_activation";
    facts.activation = "gelu_pytorch_tanh";
    facts.tied = true;
    facts.ropeByLayerType = true;
    facts.ropeThetas = {{"full_attention", 1e6}, {"sliding_attention", 1e4}};
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
