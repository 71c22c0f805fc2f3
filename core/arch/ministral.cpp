// SPDX-License-Identifier: GPL-3.0-or-later
// MinistralForCausalLM, transformers 5.24 models/ministral/modeling_ministral.py: Mistral with a mask by layer type; both are
// built.
#include "arch/ministral.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeMinistral(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Ministral";
    facts.pythonFile = "modeling_ministral.py";
    if (const auto read = blocks::readOneWindow(config, 4096, facts); !read)
        return tl::unexpected(read.error());
    const auto layers = blocks::readLayerCount(config);
    if (!layers)
        return tl::unexpected(layers.error());
    auto types = blocks::readLayerTypes(config, *layers, {"full_attention", "sliding_attention"});
    if (!types)
        return tl::unexpected(types.error());
    if (!types->empty())
        facts.layerTypes = std::move(*types);
    else if (facts.layerTypes.empty())
        facts.layerTypes.assign(static_cast<std::size_t>(*layers), "full_attention");
    // Without a window the mask of sliding layers cannot be built: upstream raises.
    facts.masks = {"full_attention", "sliding_attention"};
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
