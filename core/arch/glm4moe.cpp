// SPDX-License-Identifier: GPL-3.0-or-later
// Glm4MoeForCausalLM, transformers 5.24 models/glm4_moe/modeling_glm4_moe.py: a part of each head rotates, DeepSeek V3's
// experts behind the first dense layers.
#include "arch/glm4moe.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeGlm4Moe(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Glm4Moe";
    facts.pythonFile = "modeling_glm4_moe.py";
    blocks::ConfigReads reads(config);
    facts.attentionBias = reads.flag("attention_bias", false);
    facts.rotary = blocks::readRotary(config, reads, 0, 0.5);
    if (reads.flag("use_qk_norm", false))
        facts.qkNorm = blocks::QkNorm::AfterViews;
    blocks::GroupedExperts counts;
    counts.experts = 128;
    counts.inner = 1408;
    counts.groups = counts.chosenGroups = 1;
    counts.scaling = 1.0;
    const blocks::MoeFacts moe = blocks::readGroupedExperts(reads, counts, "Glm4Moe");
    const std::int64_t dense = reads.integer("first_k_dense_replace", 1);
    if (reads.failed())
        return reads.error();
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    facts.addMlp = [moe, dense](blocks::Builder &b, ModuleIndex layer, std::int64_t index) {
        if (index < dense)
            return false;
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
