// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen3_5ForCausalLM (model_type qwen3_5_text), transformers 5.24 models/qwen3_5/modeling_qwen3_5.py: linear attention in
// three of four layers, gated attention in the fourth, dense MLPs.
#include "arch/qwen35.h"

#include "arch/deltanet.h"

namespace tpscope {

Result<ModelDescription> describeQwen35Text(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen3_5";
    facts.pythonFile = "modeling_qwen3_5.py";
    blocks::ConfigReads reads(config);
    blocks::DeltaNet net = blocks::readHybrid(config, reads, facts);
    const double eps = reads.real("rms_norm_eps", 1e-6);
    if (reads.failed())
        return reads.error();
    net.fused = false;
    facts.modelName = "TextModel";
    blocks::addHybrid(facts, net, eps);
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
