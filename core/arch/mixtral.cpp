// SPDX-License-Identifier: GPL-3.0-or-later
// MixtralForCausalLM, transformers 5.24 models/mixtral/modeling_mixtral.py: Mistral with a mixture of experts in each
// layer, stored as block_sparse_moe with one tensor an expert.
#include "arch/mixtral.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeMixtral(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Mixtral";
    facts.pythonFile = "modeling_mixtral.py";
    if (const auto read = blocks::readOneWindow(config, 0, facts); !read)
        return tl::unexpected(read.error());
    const auto experts = blocks::readCount(config, {"num_local_experts", "num_experts"}, 8);
    const auto chosen = blocks::readCount(config, {"num_experts_per_tok"}, 2);
    const auto inner = blocks::readCount(config, {"intermediate_size"}, 14336);
    const auto activation = config.text("hidden_act", "silu");
    for (const auto *number : {&experts, &chosen, &inner})
        if (!*number)
            return tl::unexpected(number->error());
    if (!activation)
        return tl::unexpected(activation.error());
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    const std::string stored = "block_sparse_moe.";
    const blocks::MoeFacts moe{*experts, *chosen, *inner, true, *activation,
                               "MixtralSparseMoeBlock", "MixtralTopKRouter", "MixtralExperts",
                               stored + "gate.weight", stored + "experts.{}.w1.weight",
                               stored + "experts.{}.w3.weight", stored + "experts.{}.w2.weight"};
    facts.addMlp = [moe](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        blocks::addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
