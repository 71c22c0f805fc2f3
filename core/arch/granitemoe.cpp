// SPDX-License-Identifier: GPL-3.0-or-later
// GraniteMoeForCausalLM, transformers 5.24 models/granitemoe/modeling_granitemoe.py: Granite with a mixture of experts in
// each layer, stored stacked.
#include "arch/granitemoe.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeGraniteMoe(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "GraniteMoe";
    facts.pythonFile = "modeling_granitemoe.py";
    blocks::ConfigReads reads(config);
    blocks::readFactors(reads, facts);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    blocks::MoeFacts moe;
    moe.experts = reads.count("num_local_experts", 8);
    moe.chosen = reads.count("num_experts_per_tok", 2);
    moe.inner = reads.count("intermediate_size", 11008);
    moe.activation = reads.text("hidden_act", "silu");
    if (reads.failed())
        return reads.error();
    facts.mlpName = "block_sparse_moe";
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    blocks::nameExperts(moe, "GraniteMoe", "MoE", "TopKRouter");
    moe.routerName = "router";
    moe.softmaxChosen = true;
    moe.storedRouter = "block_sparse_moe.router.layer.weight";
    moe.storedStack = "block_sparse_moe.input_linear.weight";
    moe.storedDownStack = "block_sparse_moe.output_linear.weight";
    facts.addMlp = [moe](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        blocks::addSparseMoe(b, layer, "block_sparse_moe", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
