// SPDX-License-Identifier: GPL-3.0-or-later
// Gemma2ForCausalLM, transformers 5.24 models/gemma2/modeling_gemma2.py: norms on both sides of attention and MLP, scaled
// embeddings, softcaps of scores (eager attention) and logits, sliding and full layers by turns.
#include "arch/gemma2.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

// null: no softcap, where the class has a default of its own.
double softcap(const ModelConfig &config, blocks::ConfigReads &reads, const std::string &key, double fallback) {
    const bool none = config.json().contains(key) && config.json().at(key).is_null();
    return none ? 0.0 : reads.real(key, fallback);
}

} // namespace

Result<ModelDescription> describeGemma2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Gemma2";
    facts.pythonFile = "modeling_gemma2.py";
    blocks::ConfigReads reads(config);
    const std::int64_t hidden = reads.count("hidden_size", 2304);
    const double scalar = reads.real("query_pre_attn_scalar", 256.0);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    if (reads.flag("use_bidirectional_attention", false))
        reads.refuse("gemma2 with use_bidirectional_attention is not described");
    facts.logitsSoftcap = softcap(config, reads, "final_logit_softcapping", 30.0);
    facts.attentionSoftcap = softcap(config, reads, "attn_logit_softcapping", 50.0);
    reads.expect(blocks::readAlternatingWindow(config, 4096, 2, facts));
    if (reads.failed())
        return reads.error();
    facts.attention = "eager"; // no sdpa with softcaps
    facts.defaultHeadDim = 256;
    facts.attentionScale = 1.0 / std::sqrt(scalar);
    facts.embeddingScale = std::sqrt(static_cast<double>(hidden));
    facts.normOffset = 1.0;
    facts.normAfterAttention = "post_attention_layernorm";
    facts.normBeforeMlp = "pre_feedforward_layernorm";
    facts.normAfterMlp = "post_feedforward_layernorm";
    facts.activationKey = "hidden_activation";
    facts.activation = "gelu_pytorch_tanh";
    facts.tied = true;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
