// SPDX-License-Identifier: GPL-3.0-or-later
// GraniteForCausalLM, transformers 5.24 models/granite/modeling_granite.py: Llama with factors on embeddings, scores,
// residuals and logits.
#include "arch/granite.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeGranite(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Granite";
    facts.pythonFile = "modeling_granite.py";
    blocks::ConfigReads reads(config);
    blocks::readFactors(reads, facts);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    facts.mlpBias = reads.flag("mlp_bias", false);
    if (reads.failed())
        return reads.error();
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
