// SPDX-License-Identifier: GPL-3.0-or-later
// LlamaForCausalLM, transformers 5.24 models/llama/modeling_llama.py: no layer_types, one causal mask.
#include "arch/llama.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeLlama(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Llama";
    facts.pythonFile = "modeling_llama.py";
    const auto attentionBias = config.flag("attention_bias", false);
    const auto mlpBias = config.flag("mlp_bias", false);
    if (!attentionBias)
        return tl::unexpected(attentionBias.error());
    if (!mlpBias)
        return tl::unexpected(mlpBias.error());
    facts.attentionBias = facts.outputBias = *attentionBias;
    facts.mlpBias = *mlpBias;
    facts.modelDeprecateKwarg = blocks::DecoratorPlace::Outermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
