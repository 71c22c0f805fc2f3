// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen3MoeForCausalLM, transformers 5.24 models/qwen3_moe/modeling_qwen3_moe.py: Qwen3's attention, and a mixture of
// experts in each layer that decoder_sparse_step and mlp_only_layers do not leave dense.
#include "arch/qwen3moe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

Result<std::vector<std::int64_t>> denseLayers(const ModelConfig &config) {
    std::vector<std::int64_t> layers;
    if (!config.has("mlp_only_layers"))
        return layers;
    for (const nlohmann::json &entry : config.json().at("mlp_only_layers")) {
        if (!entry.is_number_integer())
            return fail(ErrorCode::BadInput, "key \"mlp_only_layers\": expected a list of layer numbers, found " +
                                                 config.json().at("mlp_only_layers").dump(),
                        Location{config.fileName()});
        layers.push_back(entry.get<std::int64_t>());
    }
    return layers;
}

} // namespace

Result<ModelDescription> describeQwen3Moe(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen3Moe";
    facts.pythonFile = "modeling_qwen3_moe.py";
    facts.qkNorm = blocks::QkNorm::PerHead;
    const auto bias = config.flag("attention_bias", false);
    const auto sliding = config.flag("use_sliding_window", false);
    const auto sums = config.flag("norm_topk_prob", false);
    for (const auto *flag : {&bias, &sliding, &sums})
        if (!*flag)
            return tl::unexpected(flag->error());
    if (*sliding)
        if (const auto read = blocks::readOneWindow(config, 4096, facts); !read)
            return tl::unexpected(read.error());
    const auto experts = blocks::readCount(config, {"num_local_experts", "num_experts"}, 128);
    const auto chosen = blocks::readCount(config, {"num_experts_per_tok"}, 8);
    const auto inner = blocks::readCount(config, {"moe_intermediate_size"}, 768);
    const auto step = blocks::readCount(config, {"decoder_sparse_step"}, 1);
    for (const auto *number : {&experts, &chosen, &inner, &step})
        if (!*number)
            return tl::unexpected(number->error());
    const auto activation = config.text("hidden_act", "silu");
    if (!activation)
        return tl::unexpected(activation.error());
    auto dense = denseLayers(config);
    if (!dense)
        return tl::unexpected(dense.error());
    facts.attentionBias = facts.outputBias = *bias;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    const blocks::MoeFacts moe{*experts, *chosen, *inner, *sums, *activation,
                               "Qwen3MoeSparseMoeBlock", "Qwen3MoeTopKRouter", "Qwen3MoeExperts", "mlp.gate.weight",
                               "mlp.experts.{}.gate_proj.weight", "mlp.experts.{}.up_proj.weight",
                               "mlp.experts.{}.down_proj.weight"};
    facts.addMlp = [moe, every = *step, only = *dense](blocks::Builder &b, ModuleIndex layer, std::int64_t index) {
        if (std::ranges::find(only, index) != only.end() || (index + 1) % every != 0)
            return false;
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
