// SPDX-License-Identifier: GPL-3.0-or-later
// Mistral4ForCausalLM, transformers 5.24 models/mistral4/modeling_mistral4.py: DeepSeek's latent attention with queries
// scaled by their positions, experts behind a softmax limited to groups, beside shared ones.
#include "arch/mistral4.h"

#include "arch/latentattention.h"

namespace tpscope {

Result<ModelDescription> describeMistral4(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Mistral4";
    facts.pythonFile = "modeling_mistral4.py";
    blocks::ConfigReads reads(config);
    blocks::LatentAttention latent = blocks::readLatentAttention(config, reads, {1024, 256, 64, 64, 128});
    latent.positionScale = true;
    blocks::GroupedExperts counts;
    counts.experts = 128;
    counts.chosen = 4;
    counts.groups = counts.chosenGroups = 1;
    counts.scaling = 1.0;
    blocks::MoeFacts moe = blocks::readGroupedExperts(reads, counts, facts.prefix);
    moe.routerF32 = false;
    moe.groupBest = 2;
    moe.scaledSoftmax = true;
    // Checkpoints hold the experts stacked, as the module does: no conversion is registered for this family.
    moe.storedStack = "mlp.experts.gate_up_proj";
    moe.storedDownStack = "mlp.experts.down_proj";
    const std::int64_t dense = reads.integer("first_k_dense_replace", 0);
    if (reads.failed())
        return reads.error();
    blocks::useLatentMoe(facts, latent, moe, dense);
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
