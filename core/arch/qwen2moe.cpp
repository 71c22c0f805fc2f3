// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen2MoeForCausalLM, transformers 5.24 models/qwen2_moe/modeling_qwen2_moe.py: Qwen2's attention, experts beside a shared
// one behind a gate, both masks whatever the layers are.
#include "arch/qwen2moe.h"

#include <algorithm>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

// Every other layer slides below max_window_layers, where use_sliding_window is on.
void readTypes(const ModelConfig &config, blocks::ConfigReads &reads, blocks::DecoderFacts &facts) {
    const bool slides = reads.flag("use_sliding_window", false);
    const std::int64_t below = reads.integer("max_window_layers", 28);
    const auto window = blocks::readSlidingWindow(config, 4096);
    const auto layers = blocks::readLayerCount(config);
    if (!window || !layers)
        return reads.expect(tl::unexpected(window ? layers.error() : window.error()));
    auto types = blocks::readLayerTypes(config, *layers, {"full_attention", "sliding_attention"});
    if (!types)
        return reads.expect(tl::unexpected(types.error()));
    if (types->empty())
        for (std::int64_t i = 0; i < *layers; ++i)
            types->push_back(slides && i % 2 == 0 && i < below ? "sliding_attention" : "full_attention");
    facts.slidingWindow = slides ? *window : 0;
    facts.layerTypes = std::move(*types);
    facts.masks = {"full_attention", "sliding_attention"};
}

} // namespace

Result<ModelDescription> describeQwen2Moe(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen2Moe";
    facts.pythonFile = "modeling_qwen2_moe.py";
    blocks::ConfigReads reads(config);
    blocks::MoeFacts moe;
    moe.experts = reads.count("num_experts", 60);
    moe.chosen = reads.count("num_experts_per_tok", 4);
    moe.inner = reads.count("moe_intermediate_size", 1408);
    moe.shared = reads.count("shared_expert_intermediate_size", 5632);
    moe.sumsToOne = reads.flag("norm_topk_prob", false);
    moe.activation = reads.text("hidden_act", "silu");
    const std::int64_t step = reads.count("decoder_sparse_step", 1);
    const auto dense = reads.integers("mlp_only_layers");
    facts.attentionBias = reads.flag("qkv_bias", true);
    readTypes(config, reads, facts);
    if (reads.failed())
        return reads.error();
    blocks::nameExperts(moe, "Qwen2Moe", "SparseMoeBlock", "TopKRouter");
    moe.sharedName = "shared_expert";
    moe.sharedGate = true;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    facts.addMlp = [moe, step, dense](blocks::Builder &b, ModuleIndex layer, std::int64_t index) {
        if ((dense && std::ranges::find(*dense, index) != dense->end()) || (index + 1) % step != 0)
            return false;
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
