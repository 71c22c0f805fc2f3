// SPDX-License-Identifier: GPL-3.0-or-later
// Source: transformers 5.24 models/qwen3_next/modeling_qwen3_next.py and models/qwen3_5/modeling_qwen3_5.py: GatedDeltaNet,
// Attention, RMSNormGated.
#include "arch/deltanet.h"

#include <cmath>

namespace tpscope::blocks {
namespace {

// One projection holds q, k, v and z of each key head, another b and a: they are taken apart head by head.
void projectFused(Body &body, const DeltaNet &net) {
    const std::int64_t each = net.valueHeads / net.keyHeads, values = each * net.valueDim;
    const std::int64_t wide = 2 * net.keyDim + 2 * values;
    body.push_back(callModule("in_proj_qkvz", {"hidden_states"}, {"qkvz"}));
    body.push_back(callModule("in_proj_ba", {"hidden_states"}, {"ba"}));
    body.push_back(viewHeads("qkvz", wide, "qkvz_view", net.keyHeads));
    body.push_back(viewHeads("ba", 2 * each, "ba_view", net.keyHeads));
    const auto part = [&](const Var &in, std::int64_t begin, std::int64_t end, const Var &out) {
        body.push_back(sliceOfLast(in, begin, end, out + "_heads"));
        body.push_back(op(OpKind::MergeHeads, {out + "_heads"}, {out}, "reshape"));
    };
    part("qkvz_view", 0, net.keyDim, "q_flat");
    part("qkvz_view", net.keyDim, 2 * net.keyDim, "k_flat");
    part("qkvz_view", 2 * net.keyDim, 2 * net.keyDim + values, "v_flat");
    part("qkvz_view", 2 * net.keyDim + values, wide, "z_flat");
    part("ba_view", 0, each, "b");
    part("ba_view", each, 2 * each, "a");
    body.push_back(op(OpKind::Concat, {"q_flat", "k_flat", "v_flat"}, {"mixed"}, "cat(query, key, value)"));
}

void projectSeparately(Body &body) {
    for (const auto &[name, out] : {std::pair{"in_proj_qkv", "mixed"}, std::pair{"in_proj_z", "z_flat"},
                                    std::pair{"in_proj_b", "b"}, std::pair{"in_proj_a", "a"}})
        body.push_back(callModule(name, {"hidden_states"}, {out}));
}

ForwardProgram netProgram(const Builder &b, const DeltaNet &net) {
    ForwardProgram program;
    program.id = b.prefix + "GatedDeltaNet.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"output"};
    Body &body = program.body;
    if (net.fused)
        projectFused(body, net);
    else
        projectSeparately(body);
    Operation convolve;
    convolve.kind = OpKind::Convolve;
    convolve.in = {"mixed"};
    convolve.out = {"convolved"};
    convolve.parameters = {"conv1d.weight"};
    body.push_back(op(std::move(convolve), "causal_conv1d"));
    body.push_back(sliceOfLast("convolved", 0, net.keys(), "q", net.channels()));
    body.push_back(sliceOfLast("convolved", net.keys(), 2 * net.keys(), "k", net.channels()));
    body.push_back(sliceOfLast("convolved", 2 * net.keys(), net.channels(), "v", net.channels()));
    body.push_back(viewHeads("q", net.keyDim, "queries"));
    body.push_back(viewHeads("k", net.keyDim, "keys"));
    body.push_back(viewHeads("v", net.valueDim, "values"));
    body.push_back(viewHeads("z_flat", net.valueDim, "z"));
    Operation rule;
    rule.kind = OpKind::DeltaRule;
    rule.in = {"queries", "keys", "values", "b", "a", "cache"};
    rule.out = {"core"};
    rule.parameters = {"A_log", "dt_bias"};
    rule.reads = {{GuardRead::Kind::SelfAttribute, "layer_idx"}};
    rule.graphOps = 60;
    body.push_back(op(std::move(rule), "gated delta rule"));
    body.push_back(callModule("norm", {"core", "z"}, {"normed"}));
    body.push_back(op(OpKind::MergeHeads, {"normed"}, {"merged"}, "reshape"));
    body.push_back(callModule("out_proj", {"merged"}, {"output"}));
    return program;
}

// Its weight is read by its parent; the module itself is never called.
void addConvolution(Builder &b, ModuleIndex parent, const DeltaNet &net) {
    const ModuleIndex index = b.model.tree.add(parent, "conv1d", "Conv1d");
    Module &module = b.at(index);
    module.parameters.push_back({"weight", {net.channels(), 1, net.kernel}, b.model.dtype, b.initStd, 0.0});
}

void addGatedNorm(Builder &b, ModuleIndex parent, std::int64_t size, double eps) {
    const ModuleIndex index = b.model.tree.add(parent, "norm", b.prefix + "RMSNormGated");
    Module &module = b.at(index);
    module.parameters.push_back({"weight", {size}, b.model.dtype, 0.0, 1.0});
    module.attributes = {{"eps", eps}, {"weight_offset", 0.0}, {"function", std::string("silu")}};
    module.forwardProgram = module.className + ".forward";
    Operation norm;
    norm.kind = OpKind::RmsNorm;
    norm.in = {"hidden_states"};
    norm.out = {"normed"};
    norm.parameters = {"weight"};
    norm.graphOps = 8;
    b.define({module.forwardProgram, "forward@" + b.pythonFile, {"hidden_states", "gate"}, {"output"},
              {op(std::move(norm)), op(OpKind::Activation, {"gate"}, {"open"}, "silu(gate)"),
               op(OpKind::Multiply, {"normed", "open"}, {"output"}, "norm * silu(gate)")},
              false});
}

void addNet(Builder &b, ModuleIndex layer, std::int64_t index, const DeltaNet &net, double eps) {
    const std::int64_t hidden = b.model.dims.hidden;
    b.define(netProgram(b, net));
    const ModuleIndex attention = b.model.tree.add(layer, "linear_attn", b.prefix + "GatedDeltaNet");
    Module &module = b.at(attention);
    module.calledWithKeywords = true;
    module.forwardProgram = b.attentionForward(b.prefix + "GatedDeltaNet.forward");
    module.attributes = {{"layer_idx", index}, {"layer_type", std::string("linear_attention")}, {"function", net.activation}};
    module.parameters.push_back({"dt_bias", {net.valueHeads}, b.model.dtype, 0.0, 1.0});
    module.parameters.push_back({"A_log", {net.valueHeads}, b.model.dtype, 0.5, 1.0});
    if (net.fused) {
        b.linear(attention, "in_proj_qkvz", hidden, 2 * (net.keys() + net.values()), false);
        b.linear(attention, "in_proj_ba", hidden, 2 * net.valueHeads, false);
    } else {
        b.linear(attention, "in_proj_qkv", hidden, net.channels(), false);
        b.linear(attention, "in_proj_z", hidden, net.values(), false);
        b.linear(attention, "in_proj_b", hidden, net.valueHeads, false);
        b.linear(attention, "in_proj_a", hidden, net.valueHeads, false);
    }
    addConvolution(b, attention, net);
    addGatedNorm(b, attention, net.valueDim, eps);
    b.linear(attention, "out_proj", net.values(), hidden, false);
}

// Attention whose q_proj gives a gate beside each query head.
ForwardProgram attentionProgram(const Builder &b, const DecoderFacts &facts, std::int64_t headDim) {
    ForwardProgram program;
    program.id = b.prefix + "Attention.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"attn_output"};
    Body &body = program.body;
    body.push_back(callModule("q_proj", {"hidden_states"}, {"q_out"}));
    body.push_back(viewHeads("q_out", 2 * headDim, "q_and_gate"));
    body.push_back(chunkOfLast("q_and_gate", 0, 2, "q_view"));
    body.push_back(chunkOfLast("q_and_gate", 1, 2, "gate_heads"));
    body.push_back(op(OpKind::MergeHeads, {"gate_heads"}, {"gate"}, "reshape"));
    body.push_back(callModule("q_norm", {"q_view"}, {"q_normed"}));
    body.push_back(op(OpKind::Transpose, {"q_normed"}, {"q_proj_heads"}, "transpose(1, 2)"));
    body.push_back(callModule("k_proj", {"hidden_states"}, {"k_out"}));
    body.push_back(viewHeads("k_out", headDim, "k_view"));
    body.push_back(callModule("k_norm", {"k_view"}, {"k_normed"}));
    body.push_back(op(OpKind::Transpose, {"k_normed"}, {"k_proj_heads"}, "transpose(1, 2)"));
    body.push_back(callModule("v_proj", {"hidden_states"}, {"v_out"}));
    body.push_back(viewHeads("v_out", headDim, "v_view"));
    body.push_back(op(OpKind::Transpose, {"v_view"}, {"v_heads"}, "transpose(1, 2)"));
    rotate(body, facts, "q_proj_heads", "k_proj_heads", headDim);
    body.push_back(cacheUpdate("k", "v_heads", {"keys", "values"}, "cache.update"));
    body.push_back(op(OpKind::Attend, {"q", "keys", "values", "attention_mask"}, {"attended"}, "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(op(OpKind::Activation, {"gate"}, {"open"}, "sigmoid(gate)"));
    body.push_back(op(OpKind::Multiply, {"merged", "open"}, {"gated"}, "attention * sigmoid(gate)"));
    body.push_back(callModule("o_proj", {"gated"}, {"attn_output"}));
    return program;
}

void addGatedAttention(Builder &b, ModuleIndex layer, std::int64_t index, const DecoderFacts &facts, double eps) {
    const ModelDimensions &d = b.model.dims;
    b.define(attentionProgram(b, facts, d.headDim));
    const ModuleIndex attention = b.model.tree.add(layer, "self_attn", b.prefix + "Attention");
    Module &module = b.at(attention);
    module.calledWithKeywords = module.returnsTuple = true;
    module.forwardProgram = b.attentionForward(b.prefix + "Attention.forward");
    module.attributes = {{"layer_idx", index},
                         {"head_dim", d.headDim},
                         {"num_attention_heads", d.heads},
                         {"num_key_value_heads", d.kvHeads},
                         {"num_key_value_groups", d.heads / d.kvHeads},
                         {"scaling", 1.0 / std::sqrt(static_cast<double>(d.headDim))},
                         {"function", std::string("sigmoid")},
                         {"layer_type", std::string("full_attention")},
                         {"sliding_window", std::int64_t{0}}};
    b.linear(attention, "q_proj", d.hidden, 2 * d.heads * d.headDim, facts.attentionBias);
    b.rmsNorm(attention, "q_norm", d.headDim, eps);
    b.linear(attention, "k_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    b.rmsNorm(attention, "k_norm", d.headDim, eps);
    b.linear(attention, "v_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    b.linear(attention, "o_proj", d.heads * d.headDim, d.hidden, facts.outputBias);
}

} // namespace

DeltaNet readHybrid(const ModelConfig &config, ConfigReads &reads, DecoderFacts &facts) {
    DeltaNet net;
    net.kernel = reads.count("linear_conv_kernel_dim", 4);
    net.keyDim = reads.count("linear_key_head_dim", 128);
    net.valueDim = reads.count("linear_value_head_dim", 128);
    net.keyHeads = reads.count("linear_num_key_heads", 16);
    net.valueHeads = reads.count("linear_num_value_heads", 32);
    net.activation = reads.text("hidden_act", "silu");
    if (net.valueHeads % net.keyHeads != 0)
        reads.expect(fail(ErrorCode::BadInput, "linear_num_value_heads (" + std::to_string(net.valueHeads) +
                                                   ") is not a multiple of linear_num_key_heads (" +
                                                   std::to_string(net.keyHeads) + ")",
                          Location{config.fileName()}));
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    facts.defaultHeadDim = 256;
    facts.rotary = readRotary(config, reads, facts.defaultHeadDim, 0.25);
    facts.normOffset = 1.0;
    facts.masks = {"full_attention", "linear_attention"};
    const std::int64_t interval = reads.count("full_attention_interval", 4);
    const auto layers = readLayerCount(config);
    if (!layers) {
        reads.expect(tl::unexpected(layers.error()));
        return net;
    }
    auto types = readLayerTypes(config, *layers, {"full_attention", "linear_attention"});
    if (!types) {
        reads.expect(tl::unexpected(types.error()));
        return net;
    }
    facts.layerTypes = std::move(*types);
    if (facts.layerTypes.empty())
        for (std::int64_t i = 0; i < *layers; ++i)
            facts.layerTypes.push_back((i + 1) % interval != 0 ? "linear_attention" : "full_attention");
    return net;
}

void addHybrid(DecoderFacts &facts, const DeltaNet &net, double eps) {
    facts.attentionNames = {{"linear_attention", "linear_attn"}};
    DecoderFacts own = facts; // a copy: what is built outlives the facts
    own.addAttention = {};
    own.addMlp = {};
    facts.addAttention = [own, net, eps](Builder &b, ModuleIndex layer, std::int64_t index) {
        if (own.layerTypes[static_cast<std::size_t>(index)] == "linear_attention")
            addNet(b, layer, index, net, eps);
        else
            addGatedAttention(b, layer, index, own, eps);
    };
}

} // namespace tpscope::blocks
