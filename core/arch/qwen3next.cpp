// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen3NextForCausalLM, transformers 5.24 models/qwen3_next/modeling_qwen3_next.py: linear attention in three of four layers,
// gated attention in the fourth, experts beside a shared one behind a gate.
#include "arch/qwen3next.h"

#include <algorithm>

#include "arch/deltanet.h"

namespace tpscope {

Result<ModelDescription> describeQwen3Next(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen3Next";
    facts.pythonFile = "modeling_qwen3_next.py";
    blocks::ConfigReads reads(config);
    const blocks::DeltaNet net = blocks::readHybrid(config, reads, facts);
    const double eps = reads.real("rms_norm_eps", 1e-6);
    blocks::MoeFacts moe;
    moe.experts = reads.count("num_experts", 512);
    moe.chosen = reads.count("num_experts_per_tok", 10);
    moe.inner = reads.count("moe_intermediate_size", 512);
    moe.shared = reads.count("shared_expert_intermediate_size", 512);
    moe.sumsToOne = reads.flag("norm_topk_prob", true);
    moe.activation = reads.text("hidden_act", "silu");
    const std::int64_t step = reads.count("decoder_sparse_step", 1);
    const auto dense = reads.integers("mlp_only_layers");
    if (reads.failed())
        return reads.error();
    blocks::nameExperts(moe, facts.prefix, "SparseMoeBlock", "TopKRouter");
    moe.sharedName = "shared_expert";
    moe.sharedGate = true;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    blocks::addHybrid(facts, net, eps);
    facts.addMlp = [moe, step, dense](blocks::Builder &b, ModuleIndex layer, std::int64_t index) {
        if ((dense && std::ranges::find(*dense, index) != dense->end()) || (index + 1) % step != 0)
            return false;
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
