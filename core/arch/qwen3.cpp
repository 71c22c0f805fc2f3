// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen3ForCausalLM, transformers 5.24 models/qwen3/modeling_qwen3.py: per-head q_norm and k_norm, masks by layer_types.
#include "arch/qwen3.h"

#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

// Qwen3Config.__post_init__: layer_types of the file, else sliding from max_window_layers on when it is switched on.
Result<std::vector<std::string>> layerTypes(const ModelConfig &config, std::int64_t layers, bool sliding) {
    std::vector<std::string> types;
    if (config.has("layer_types")) {
        const nlohmann::json &list = config.json().at("layer_types");
        const auto bad = [&](const std::string &found) {
            return fail(ErrorCode::BadInput,
                        "key \"layer_types\": expected " + std::to_string(layers) +
                            " entries, each \"full_attention\" or \"sliding_attention\", found " + found,
                        Location{config.fileName()});
        };
        if (!list.is_array() || static_cast<std::int64_t>(list.size()) != layers)
            return bad(list.is_array() ? std::to_string(list.size()) + " entries" : list.dump());
        for (const nlohmann::json &entry : list) {
            if (!entry.is_string() || (entry != "full_attention" && entry != "sliding_attention"))
                return bad(entry.dump());
            types.push_back(entry.get<std::string>());
        }
        return types;
    }
    const auto first = config.integer("max_window_layers", 28);
    if (!first)
        return tl::unexpected(first.error());
    for (std::int64_t i = 0; i < layers; ++i)
        types.push_back(sliding && i >= *first ? "sliding_attention" : "full_attention");
    return types;
}

} // namespace

Result<ModelDescription> describeQwen3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen3";
    facts.pythonFile = "modeling_qwen3.py";
    facts.qkNorm = true;
    const auto bias = config.flag("attention_bias", false);
    if (!bias)
        return tl::unexpected(bias.error());
    facts.attentionBias = *bias;
    const auto useSliding = config.flag("use_sliding_window", false);
    if (!useSliding)
        return tl::unexpected(useSliding.error());
    const auto window = config.integer("sliding_window", 4096);
    if (!window)
        return tl::unexpected(window.error());
    facts.slidingWindow = *useSliding ? *window : 0;
    const auto layers = config.integer("num_hidden_layers");
    if (!layers)
        return tl::unexpected(layers.error());
    if (*layers < 1 || *layers > 100000)
        return fail(ErrorCode::BadInput,
                    "key \"num_hidden_layers\": expected 1 to 100000, found " + std::to_string(*layers),
                    Location{config.fileName()});
    auto types = layerTypes(config, *layers, facts.slidingWindow > 0);
    if (!types)
        return tl::unexpected(types.error());
    facts.layerTypes = std::move(*types);
    return blocks::describePreNormDecoder(config, upstream, facts);
}

} // namespace tpscope
