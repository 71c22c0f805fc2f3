// SPDX-License-Identifier: GPL-3.0-or-later
// DeepseekV3ForCausalLM, transformers 5.24 models/deepseek_v3/modeling_deepseek_v3.py: multi-head latent attention, and
// experts chosen within groups, beside shared ones.
#include "arch/deepseekv3.h"

#include "arch/latentattention.h"

namespace tpscope {

Result<ModelDescription> describeDeepseekV3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "DeepseekV3";
    facts.pythonFile = "modeling_deepseek_v3.py";
    blocks::ConfigReads reads(config);
    const blocks::LatentAttention latent = blocks::readLatentAttention(config, reads);
    const blocks::MoeFacts moe = blocks::readGroupedExperts(reads, {}, facts.prefix);
    const std::int64_t dense = reads.integer("first_k_dense_replace", 3);
    if (reads.failed())
        return reads.error();
    blocks::useLatentMoe(facts, latent, moe, dense);
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
