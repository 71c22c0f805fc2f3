// SPDX-License-Identifier: GPL-3.0-or-later
// SmolLM3ForCausalLM, transformers 5.24 models/smollm3/modeling_smollm3.py: Llama in which some layers do not rotate.
#include "arch/smollm3.h"

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

// Which layers rotate (no_rope_layers says 1 of those that do), and which slide.
void readLayers(const ModelConfig &config, blocks::ConfigReads &reads, blocks::DecoderFacts &facts) {
    const bool slides = reads.flag("use_sliding_window", false);
    const std::int64_t interval = reads.count("no_rope_layer_interval", 4);
    const auto layers = blocks::readLayerCount(config);
    const auto window = blocks::readSlidingWindow(config, 0);
    if (!layers || !window)
        return reads.expect(tl::unexpected(layers ? window.error() : layers.error()));
    const auto rotating = reads.integers("no_rope_layers");
    if (rotating && static_cast<std::int64_t>(rotating->size()) < *layers)
        return reads.expect(fail(ErrorCode::BadInput, "key \"no_rope_layers\": expected an entry a layer (" +
                                                          std::to_string(*layers) + "), found " +
                                                          std::to_string(rotating->size()),
                                 Location{config.fileName()}));
    auto types = blocks::readLayerTypes(config, *layers, {"full_attention", "sliding_attention"});
    if (!types)
        return reads.expect(tl::unexpected(types.error()));
    const bool typed = !types->empty();
    facts.ropeIf = "use_rope";
    facts.slidingWindow = slides ? *window : 0;
    for (std::int64_t i = 0; i < *layers; ++i) {
        const bool rotates = rotating ? (*rotating)[static_cast<std::size_t>(i)] != 0 : (i + 1) % interval != 0;
        facts.ropeLayers.push_back(rotates);
        if (!typed)
            types->push_back(facts.slidingWindow > 0 && !rotates ? "sliding_attention" : "full_attention");
    }
    facts.layerTypes = std::move(*types);
}

} // namespace

Result<ModelDescription> describeSmolLm3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "SmolLM3";
    facts.pythonFile = "modeling_smollm3.py";
    blocks::ConfigReads reads(config);
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    facts.mlpBias = reads.flag("mlp_bias", false);
    readLayers(config, reads, facts);
    if (reads.failed())
        return reads.error();
    facts.tied = true;
    facts.ropeTheta = 2e6;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
