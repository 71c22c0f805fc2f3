// SPDX-License-Identifier: GPL-3.0-or-later
// Cohere2ForCausalLM, transformers 5.24 models/cohere2/modeling_cohere2.py: attention and MLP side by side behind one
// LayerNorm, only sliding layers rotate, scaled logits.
#include "arch/cohere2.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeCohere2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Cohere2";
    facts.pythonFile = "modeling_cohere2.py";
    blocks::ConfigReads reads(config);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    facts.logitsFactor = reads.real("logit_scale", 0.0625);
    reads.expect(blocks::readAlternatingWindow(config, 4096, 4, facts));
    if (reads.failed())
        return reads.error();
    facts.parallel = facts.interleave = facts.tied = true;
    facts.norm = blocks::LayerNormKind::Centred;
    facts.normEpsKey = "layer_norm_eps";
    facts.normEps = 1e-5;
    facts.normBeforeMlp = {};
    facts.ropeIf = "is_sliding";
    for (const std::string &type : facts.layerTypes)
        facts.ropeLayers.push_back(type == "sliding_attention" && facts.slidingWindow > 0);
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
