// SPDX-License-Identifier: GPL-3.0-or-later
// Starcoder2ForCausalLM, transformers 5.24 models/starcoder2/modeling_starcoder2.py: LayerNorms with a bias, an MLP of two
// projections, biases everywhere.
#include "arch/starcoder2.h"

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

void addMlp(blocks::Builder &b, ModuleIndex layer, std::int64_t inner, bool bias, const std::string &activation) {
    const std::int64_t hidden = b.model.dims.hidden;
    const ModuleIndex mlp = b.model.tree.add(layer, "mlp", b.prefix + "MLP");
    b.at(mlp).forwardProgram = b.prefix + "MLP.forward";
    b.linear(mlp, "c_fc", hidden, inner, bias);
    b.activation(mlp, "act", activation);
    b.linear(mlp, "c_proj", inner, hidden, bias);
    b.define({b.prefix + "MLP.forward", "forward@" + b.pythonFile, {"hidden_states"}, {"output"},
              {blocks::callModule("c_fc", {"hidden_states"}, {"inner"}), blocks::callModule("act", {"inner"}, {"activated"}),
               blocks::callModule("c_proj", {"activated"}, {"output"})},
              false});
}

} // namespace

Result<ModelDescription> describeStarcoder2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Starcoder2";
    facts.pythonFile = "modeling_starcoder2.py";
    blocks::ConfigReads reads(config);
    const bool bias = reads.flag("use_bias", true);
    const std::int64_t inner = reads.count("intermediate_size", 12288);
    const std::string activation = reads.text("hidden_act", "gelu_pytorch_tanh");
    reads.expect(blocks::readOneWindow(config, 0, facts));
    if (reads.failed())
        return reads.error();
    facts.attentionBias = facts.outputBias = bias;
    facts.norm = blocks::LayerNormKind::Torch;
    facts.normEpsKey = "norm_epsilon";
    facts.normEps = 1e-5;
    facts.tied = true;
    facts.addMlp = [=](blocks::Builder &b, ModuleIndex layer, std::int64_t) {
        addMlp(b, layer, inner, bias, activation);
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
