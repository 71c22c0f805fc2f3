// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope::blocks {
namespace {

Result<std::vector<std::string>> typesOfFile(const ModelConfig &config, std::int64_t layers) {
    return readLayerTypes(config, layers, {"full_attention", "sliding_attention"});
}

} // namespace

Result<std::vector<std::string>> readLayerTypes(const ModelConfig &config, std::int64_t layers,
                                                const std::vector<std::string> &allowed) {
    std::vector<std::string> types;
    if (!config.has("layer_types"))
        return types;
    const nlohmann::json &list = config.json().at("layer_types");
    const auto bad = [&](const std::string &found) {
        std::string choices;
        for (const std::string &type : allowed)
            choices += (choices.empty() ? "\"" : " or \"") + type + "\"";
        return fail(ErrorCode::BadInput,
                    "key \"layer_types\": expected " + std::to_string(layers) + " entries, each " + choices +
                        ", found " + found,
                    Location{config.fileName()});
    };
    if (!list.is_array() || static_cast<std::int64_t>(list.size()) != layers)
        return bad(list.is_array() ? std::to_string(list.size()) + " entries" : list.dump());
    for (const nlohmann::json &entry : list) {
        if (!entry.is_string() || std::ranges::find(allowed, entry.get<std::string>()) == allowed.end())
            return bad(entry.dump());
        types.push_back(entry.get<std::string>());
    }
    return types;
}

Result<std::int64_t> readSlidingWindow(const ModelConfig &config, std::int64_t fallback) {
    if (config.json().contains("sliding_window") && config.json().at("sliding_window").is_null())
        return 0;
    return config.integer("sliding_window", fallback);
}

Result<std::int64_t> readLayerCount(const ModelConfig &config) {
    const auto layers = config.integer("num_hidden_layers");
    if (layers && (*layers < 1 || *layers > 100000))
        return fail(ErrorCode::BadInput,
                    "key \"num_hidden_layers\": expected 1 to 100000, found " + std::to_string(*layers),
                    Location{config.fileName()});
    return layers;
}

Result<void> readOneWindow(const ModelConfig &config, std::int64_t fallback, DecoderFacts &facts) {
    const auto window = readSlidingWindow(config, fallback);
    const auto layers = readLayerCount(config);
    if (!window || !layers)
        return tl::unexpected(window ? layers.error() : window.error());
    facts.slidingWindow = *window;
    if (*window > 0)
        facts.layerTypes.assign(static_cast<std::size_t>(*layers), "sliding_attention");
    return {};
}

Result<void> readSwitchedWindow(const ModelConfig &config, DecoderFacts &facts) {
    const auto useSliding = config.flag("use_sliding_window", false);
    if (!useSliding)
        return tl::unexpected(useSliding.error());
    const auto window = readSlidingWindow(config, 4096);
    if (!window)
        return tl::unexpected(window.error());
    facts.slidingWindow = *useSliding ? *window : 0;
    const auto layers = readLayerCount(config);
    if (!layers)
        return tl::unexpected(layers.error());
    auto types = typesOfFile(config, *layers);
    const auto first = config.integer("max_window_layers", 28);
    if (!types || !first)
        return tl::unexpected(types ? first.error() : types.error());
    if (types->empty())
        for (std::int64_t i = 0; i < *layers; ++i)
            types->push_back(facts.slidingWindow > 0 && i >= *first ? "sliding_attention" : "full_attention");
    facts.layerTypes = std::move(*types);
    return {};
}

Result<void> readAlternatingWindow(const ModelConfig &config, std::int64_t fallback, std::int64_t pattern,
                                   DecoderFacts &facts) {
    const auto window = readSlidingWindow(config, fallback);
    const auto layers = readLayerCount(config);
    const auto every = config.integer("sliding_window_pattern", pattern);
    for (const auto *number : {&window, &layers, &every})
        if (!*number)
            return tl::unexpected(number->error());
    auto types = typesOfFile(config, *layers);
    if (!types)
        return tl::unexpected(types.error());
    if (types->empty())
        for (std::int64_t i = 0; i < *layers; ++i)
            types->push_back(*every > 0 && (i + 1) % *every == 0 ? "full_attention" : "sliding_attention");
    facts.slidingWindow = *window;
    facts.layerTypes = std::move(*types);
    facts.masks = {"full_attention", "sliding_attention"};
    return {};
}

} // namespace tpscope::blocks
