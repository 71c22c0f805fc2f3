// SPDX-License-Identifier: GPL-3.0-or-later
// MistralForCausalLM, transformers 5.24 models/mistral/modeling_mistral.py: one mask for all layers, a sliding one unless
// sliding_window is null.
#include "arch/mistral.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeMistral(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Mistral";
    facts.pythonFile = "modeling_mistral.py";
    const auto window = blocks::readSlidingWindow(config, 4096);
    if (!window)
        return tl::unexpected(window.error());
    const auto layers = blocks::readLayerCount(config);
    if (!layers)
        return tl::unexpected(layers.error());
    facts.slidingWindow = *window;
    if (*window > 0)
        facts.layerTypes.assign(static_cast<std::size_t>(*layers), "sliding_attention");
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
