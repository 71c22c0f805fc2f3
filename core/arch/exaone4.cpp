// SPDX-License-Identifier: GPL-3.0-or-later
// Exaone4ForCausalLM, transformers 5.24 models/exaone4/modeling_exaone4.py: norms behind attention and MLP, q_norm and k_norm
// over each head, full layers between sliding ones do not rotate.
#include "arch/exaone4.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeExaone4(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Exaone4";
    facts.pythonFile = "modeling_exaone4.py";
    if (const auto read = blocks::readAlternatingWindow(config, 4096, 4, facts); !read)
        return tl::unexpected(read.error());
    if (facts.slidingWindow == 0 && !config.has("layer_types"))
        facts.layerTypes.assign(facts.layerTypes.size(), "full_attention");
    facts.masks.clear(); // those of the layers there are
    if (facts.slidingWindow > 0) {
        facts.ropeIf = "is_sliding";
        for (const std::string &type : facts.layerTypes)
            facts.ropeLayers.push_back(type == "sliding_attention");
    }
    facts.qkNorm = blocks::QkNorm::AfterTranspose;
    facts.normBeforeAttention = facts.normBeforeMlp = "";
    facts.normAfterAttention = "post_attention_layernorm";
    facts.normAfterMlp = "post_feedforward_layernorm";
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
