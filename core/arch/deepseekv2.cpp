// SPDX-License-Identifier: GPL-3.0-or-later
// DeepseekV2ForCausalLM, transformers 5.24 models/deepseek_v2/modeling_deepseek_v2.py: multi-head latent attention whose
// neighbours rotate as complex numbers, and experts behind a softmax, beside shared ones.
#include "arch/deepseekv2.h"

#include "arch/latentattention.h"

namespace tpscope {

Result<ModelDescription> describeDeepseekV2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "DeepseekV2";
    facts.pythonFile = "modeling_deepseek_v2.py";
    blocks::ConfigReads reads(config);
    blocks::LatentAttention latent = blocks::readLatentAttention(config, reads);
    latent.interleave = true;
    blocks::MoeFacts moe;
    moe.experts = reads.count("n_routed_experts", 64);
    moe.chosen = reads.count("num_experts_per_tok", 1);
    moe.inner = reads.count("moe_intermediate_size", 1407);
    moe.shared = moe.inner * reads.count("n_shared_experts", 2);
    moe.scaling = reads.real("routed_scaling_factor", 1.0);
    moe.activation = reads.text("hidden_act", "silu");
    facts.mlpBias = moe.sharedBias = reads.flag("mlp_bias", false);
    const std::string method = reads.text("topk_method", "greedy");
    if (method == "group_limited_greedy") {
        moe.groupBest = 1;
        moe.groups = reads.count("n_group", 1);
        moe.chosenGroups = reads.count("topk_group", 1);
    } else if (method != "greedy") {
        reads.refuse("deepseek_v2 with the topk_method \"" + method + "\" is not described; greedy and "
                     "group_limited_greedy are");
    }
    const std::int64_t dense = reads.integer("first_k_dense_replace", 0);
    if (reads.failed())
        return reads.error();
    blocks::nameExperts(moe, facts.prefix, "Moe", "TopkRouter");
    moe.scaledSoftmax = moe.routerF32 = true;
    blocks::useLatentMoe(facts, latent, moe, dense);
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
