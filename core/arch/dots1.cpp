// SPDX-License-Identifier: GPL-3.0-or-later
// Dots1ForCausalLM, transformers 5.24 models/dots1/modeling_dots1.py: Qwen3's attention, DeepSeek V3's experts.
#include "arch/dots1.h"

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

// Layers from max_window_layers on slide, unless sliding_window is null.
void readTypes(const ModelConfig &config, blocks::ConfigReads &reads, blocks::DecoderFacts &facts) {
    const std::int64_t first = reads.integer("max_window_layers", 62);
    const auto window = blocks::readSlidingWindow(config, 4096);
    const auto layers = blocks::readLayerCount(config);
    if (!window || !layers)
        return reads.expect(tl::unexpected(window ? layers.error() : window.error()));
    auto types = blocks::readLayerTypes(config, *layers, {"full_attention", "sliding_attention"});
    if (!types)
        return reads.expect(tl::unexpected(types.error()));
    if (types->empty())
        for (std::int64_t i = 0; i < *layers; ++i)
            types->push_back(*window > 0 && i >= first ? "sliding_attention" : "full_attention");
    facts.slidingWindow = *window;
    facts.layerTypes = std::move(*types);
}

} // namespace

Result<ModelDescription> describeDots1(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Dots1";
    facts.pythonFile = "modeling_dots1.py";
    facts.qkNorm = blocks::QkNorm::PerHead;
    blocks::ConfigReads reads(config);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    readTypes(config, reads, facts);
    blocks::GroupedExperts counts;
    counts.experts = counts.chosen = counts.shared = counts.groups = counts.chosenGroups = 1;
    counts.inner = 1408;
    counts.scaling = 1.0;
    blocks::MoeFacts moe = blocks::readGroupedExperts(reads, counts, facts.prefix);
    moe.sumsToOne = reads.flag("norm_topk_prob", false);
    const std::int64_t dense = reads.integer("first_k_dense_replace", 0);
    if (reads.failed())
        return reads.error();
    facts.masksInLoop = true;
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
