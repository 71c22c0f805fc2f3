// SPDX-License-Identifier: GPL-3.0-or-later
// OlmoeForCausalLM, transformers 5.24 models/olmoe/modeling_olmoe.py: q_norm and k_norm over the whole projections, a mixture
// of experts in each layer.
#include "arch/olmoe.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeOlmoe(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Olmoe";
    facts.pythonFile = "modeling_olmoe.py";
    blocks::ConfigReads reads(config);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    facts.clip = reads.real("clip_qkv", 0.0);
    const auto experts = blocks::readCount(config, {"num_experts", "num_local_experts"}, 64);
    if (!experts)
        reads.expect(tl::unexpected(experts.error()));
    blocks::MoeFacts moe;
    moe.experts = experts.value_or(64);
    moe.chosen = reads.count("num_experts_per_tok", 8);
    moe.inner = reads.count("intermediate_size", 2048);
    moe.sumsToOne = reads.flag("norm_topk_prob", false);
    moe.activation = reads.text("hidden_act", "silu");
    if (reads.failed())
        return reads.error();
    blocks::nameExperts(moe, "Olmoe", "SparseMoeBlock", "TopKRouter");
    facts.qkNorm = blocks::QkNorm::Projection;
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    facts.addMlp = [moe](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
