// SPDX-License-Identifier: GPL-3.0-or-later
// What several families read from their configs.
#include "arch/decoderblocks.h"

namespace tpscope::blocks {

void nameExperts(MoeFacts &moe, const std::string &prefix, const std::string &block, const std::string &router) {
    moe.blockClass = prefix + block;
    moe.routerClass = prefix + router;
    moe.expertsClass = prefix + "Experts";
    moe.storedRouter = "mlp.gate.weight";
    moe.storedGate = "mlp.experts.{}.gate_proj.weight";
    moe.storedUp = "mlp.experts.{}.up_proj.weight";
    moe.storedDown = "mlp.experts.{}.down_proj.weight";
}

MoeFacts readGroupedExperts(ConfigReads &reads, const GroupedExperts &defaults, const std::string &prefix) {
    MoeFacts moe;
    moe.experts = reads.count("n_routed_experts", reads.count("num_local_experts", defaults.experts));
    moe.chosen = reads.count("num_experts_per_tok", defaults.chosen);
    moe.inner = reads.count("moe_intermediate_size", defaults.inner);
    moe.shared = moe.inner * reads.count("n_shared_experts", defaults.shared);
    moe.groups = reads.count("n_group", defaults.groups);
    moe.chosenGroups = reads.count("topk_group", defaults.chosenGroups);
    moe.sumsToOne = reads.flag("norm_topk_prob", true);
    moe.scaling = reads.real("routed_scaling_factor", defaults.scaling);
    moe.activation = reads.text("hidden_act", "silu");
    moe.routerF32 = true; // _keep_in_fp32_modules_strict
    nameExperts(moe, prefix, "MoE", "TopkRouter");
    return moe;
}

void readFactors(ConfigReads &reads, DecoderFacts &facts) {
    facts.embeddingFactor = reads.real("embedding_multiplier", 1.0);
    facts.residualFactor = reads.real("residual_multiplier", 1.0);
    facts.attentionScale = reads.real("attention_multiplier", 1.0);
    facts.logitsFactor = 1.0 / reads.real("logits_scaling", 1.0);
}

std::int64_t readRotary(const ModelConfig &config, ConfigReads &reads, std::int64_t defaultHeadDim, double defaultShare) {
    const std::int64_t hidden = reads.count("hidden_size", 4096);
    const std::int64_t heads = reads.count("num_attention_heads", 32);
    const std::int64_t headDim = reads.count("head_dim", defaultHeadDim > 0 ? defaultHeadDim : hidden / heads);
    const auto rope = config.rope();
    if (!rope) {
        reads.expect(tl::unexpected(rope.error()));
        return headDim;
    }
    const double share = rope->number("partial_rotary_factor", defaultShare);
    const auto rotary = static_cast<std::int64_t>(static_cast<double>(headDim) * share);
    if (rotary < 2 || rotary > headDim || rotary % 2 != 0)
        reads.expect(fail(ErrorCode::BadInput,
                          "key \"partial_rotary_factor\": " + std::to_string(rotary) + " of the " + std::to_string(headDim) +
                              " channels of a head would rotate; expected an even number of them, at least 2",
                          Location{config.fileName()}));
    return rotary;
}

} // namespace tpscope::blocks
