// SPDX-License-Identifier: GPL-3.0-or-later
// GptOssForCausalLM, transformers 5.24 models/gpt_oss/modeling_gpt_oss.py: sliding and full layers by turns, attention
// sinks (eager attention), experts with biases whose gate and up channels stand by turns.
#include "arch/gptoss.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeGptOss(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "GptOss";
    facts.pythonFile = "modeling_gpt_oss.py";
    const auto bias = config.flag("attention_bias", true);
    const auto experts = blocks::readCount(config, {"num_local_experts", "num_experts"}, 128);
    const auto chosen = blocks::readCount(config, {"num_experts_per_tok"}, 4);
    const auto inner = blocks::readCount(config, {"intermediate_size"}, 2880);
    const auto alpha = config.real("swiglu_alpha", 1.702);
    const auto limit = config.real("swiglu_limit", 7.0);
    for (const auto *number : {&experts, &chosen, &inner})
        if (!*number)
            return tl::unexpected(number->error());
    for (const auto *number : {&alpha, &limit})
        if (!*number)
            return tl::unexpected(number->error());
    if (!bias)
        return tl::unexpected(bias.error());
    if (const auto read = blocks::readAlternatingWindow(config, 128, 2, facts); !read)
        return tl::unexpected(read.error());
    facts.attentionBias = facts.outputBias = *bias;
    facts.sinks = facts.halfTables = true;
    facts.attention = "eager"; // no sdpa with sinks
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    blocks::MoeFacts moe;
    moe.experts = *experts;
    moe.chosen = *chosen;
    moe.inner = *inner;
    moe.blockClass = "GptOssMLP";
    moe.routerClass = "GptOssTopKRouter";
    moe.expertsClass = "GptOssExperts";
    moe.storedRouter = "mlp.router.weight";
    moe.routerName = "router";
    moe.returnsScores = moe.pairs = true;
    moe.alpha = *alpha;
    moe.limit = *limit;
    facts.addMlp = [moe](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
