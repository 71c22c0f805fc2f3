// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/decoderblocks.h"

namespace tpscope::blocks {
namespace {

Error keyError(const ModelConfig &config, const std::string &message) {
    return Error{ErrorCode::BadInput, message, Location{config.fileName()}};
}

Result<std::int64_t> positive(const ModelConfig &config, const std::string &key) {
    const auto value = config.integer(key);
    if (value && *value < 1)
        return tl::unexpected(keyError(config, "key \"" + key + "\": expected at least 1, found " +
                                                   std::to_string(*value)));
    return value;
}

} // namespace

Result<std::int64_t> readCount(const ModelConfig &config, const std::vector<std::string> &keys, std::int64_t fallback) {
    for (const std::string &key : keys)
        if (config.has(key))
            return positive(config, key);
    return fallback;
}

Result<void> readDimensions(ModelDescription &model, std::int64_t headDim, double ropeTheta) {
    const ModelConfig &config = model.config;
    ModelDimensions &d = model.dims;
    const std::pair<const char *, std::int64_t *> required[] = {{"num_hidden_layers", &d.layers},
                                                                {"hidden_size", &d.hidden},
                                                                {"num_attention_heads", &d.heads},
                                                                {"vocab_size", &d.vocab}};
    for (const auto &[key, field] : required) {
        const auto value = positive(config, key);
        if (!value)
            return tl::unexpected(value.error());
        *field = *value;
    }
    const std::pair<const char *, std::pair<std::int64_t *, std::int64_t>> optional[] = {
        {"num_key_value_heads", {&d.kvHeads, d.heads}},
        {"head_dim", {&d.headDim, headDim > 0 ? headDim : d.hidden / d.heads}},
        {"max_position_embeddings", {&d.maxPositions, 2048}}};
    for (const auto &[key, target] : optional) {
        const auto value = config.integer(key, target.second);
        if (!value)
            return tl::unexpected(value.error());
        if (*value < 1)
            return tl::unexpected(keyError(config, std::string("key \"") + key + "\": expected at least 1, found " +
                                                       std::to_string(*value)));
        *target.first = *value;
    }
    if (d.heads % d.kvHeads != 0)
        return tl::unexpected(keyError(config, "num_attention_heads (" + std::to_string(d.heads) +
                                                   ") is not a multiple of num_key_value_heads (" +
                                                   std::to_string(d.kvHeads) + ")"));
    if (d.headDim % 2 != 0)
        return tl::unexpected(keyError(config, "head_dim (" + std::to_string(d.headDim) +
                                                   ") is odd; rotary embeddings need an even one"));
    const auto dtype = config.dtype();
    if (!dtype)
        return tl::unexpected(dtype.error());
    const auto rope = config.rope("full_attention", ropeTheta);
    if (!rope)
        return tl::unexpected(rope.error());
    model.dtype = *dtype;
    model.rope = *rope;
    model.modelType = config.modelType();
    return {};
}

} // namespace tpscope::blocks
