// SPDX-License-Identifier: GPL-3.0-or-later
#include <cmath>

#include "arch/decoderblocks.h"

namespace tpscope::blocks {
namespace {

constexpr const char *slidingType = "sliding_attention";

void norm(Body &body, const std::string &name, Var &current) {
    body.push_back(callModule(name, {current}, {name + "_out"}));
    current = name + "_out";
}

// View into heads and transpose to [B, heads, T, D], of "<name>_out"; gives "<name>_heads".
void toHeads(Body &body, const std::string &name, Var current, const std::string &perHeadNorm) {
    body.push_back(op(OpKind::ViewHeads, {current}, {name + "_view"}, name + "(x).view"));
    current = name + "_view";
    if (!perHeadNorm.empty())
        norm(body, perHeadNorm, current);
    body.push_back(op(OpKind::Transpose, {current}, {name + "_heads"}, "transpose(1, 2)"));
}

// q, k and v each by a projection of its own.
void projectSeparately(Body &body, QkNorm qkNorm) {
    const auto normOf = [](const std::string &name) { return name == "v_proj" ? "" : name == "q_proj" ? "q_norm" : "k_norm"; };
    for (const std::string name : {"q_proj", "k_proj", "v_proj"}) {
        Var current = name + "_out";
        body.push_back(callModule(name, {"hidden_states"}, {current}));
        if (const std::string whole = qkNorm == QkNorm::Projection ? normOf(name) : ""; !whole.empty())
            norm(body, whole, current);
        if (qkNorm != QkNorm::Projection)
            toHeads(body, name, current, qkNorm == QkNorm::PerHead ? normOf(name) : "");
    }
    if (qkNorm == QkNorm::Projection) {
        toHeads(body, "q_proj", "q_norm_out", "");
        toHeads(body, "k_proj", "k_norm_out", "");
        toHeads(body, "v_proj", "v_proj_out", "");
    }
}

// One projection, sliced by the configured numbers of heads.
void projectTogether(Body &body, const ModelDimensions &d) {
    body.push_back(callModule("qkv_proj", {"hidden_states"}, {"qkv"}));
    const std::int64_t queries = d.heads * d.headDim, keys = d.kvHeads * d.headDim;
    const auto part = [&](const std::string &name, std::int64_t begin, std::int64_t end) {
        Operation slice;
        slice.kind = OpKind::Slice;
        slice.in = {"qkv"};
        slice.out = {name + "_out"};
        slice.attributes = {{"begin", begin}};
        if (end > 0)
            slice.attributes.emplace("end", end);
        body.push_back(op(std::move(slice), "qkv[..., " + name.substr(0, 1) + "]"));
    };
    part("q_proj", 0, queries);
    part("k_proj", queries, queries + keys);
    part("v_proj", queries + keys, 0);
    for (const std::string name : {"q_proj", "k_proj", "v_proj"})
        toHeads(body, name, name + "_out", "");
}

ForwardProgram attentionProgram(const Builder &b, const DecoderFacts &facts) {
    ForwardProgram program;
    program.id = b.prefix + "Attention.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"attn_output"};
    Body &body = program.body;
    if (facts.packed)
        projectTogether(body, b.model.dims);
    else
        projectSeparately(body, facts.qkNorm);
    Var queries = "q_proj_heads", keys = "k_proj_heads";
    if (facts.qkNorm == QkNorm::AfterTranspose) {
        norm(body, "q_norm", queries);
        norm(body, "k_norm", keys);
    }
    body.push_back(op(OpKind::Rope, {queries, keys, "cos", "sin"}, {"q", "k"}, "apply_rotary_pos_emb"));
    body.push_back(cacheUpdate("k", "v_proj_heads", {"keys", "values"}, "past_key_values.update"));
    Operation attend;
    attend.kind = OpKind::Attend;
    attend.in = {"q", "keys", "values", "attention_mask"};
    attend.out = {"attended"};
    if (facts.sinks)
        attend.parameters = {"sinks"};
    body.push_back(op(std::move(attend), "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(callModule("o_proj", {"merged"}, {"attn_output"}));
    return program;
}

void addProjections(Builder &b, ModuleIndex attention, const DecoderFacts &facts, double eps) {
    const ModelDimensions &d = b.model.dims;
    const std::int64_t queries = d.heads * d.headDim, keys = d.kvHeads * d.headDim;
    const bool whole = facts.qkNorm == QkNorm::Projection;
    if (facts.packed) {
        b.linear(attention, "qkv_proj", d.hidden, queries + 2 * keys, false);
    } else {
        b.linear(attention, "q_proj", d.hidden, queries, facts.attentionBias);
        if (facts.qkNorm != QkNorm::None)
            b.rmsNorm(attention, "q_norm", whole ? queries : d.headDim, eps);
        b.linear(attention, "k_proj", d.hidden, keys, facts.attentionBias);
        if (facts.qkNorm != QkNorm::None)
            b.rmsNorm(attention, "k_norm", whole ? keys : d.headDim, eps);
        b.linear(attention, "v_proj", d.hidden, keys, facts.attentionBias);
    }
    b.linear(attention, "o_proj", queries, d.hidden, facts.outputBias);
}

} // namespace

void addSelfAttention(Builder &b, ModuleIndex layer, const DecoderFacts &facts, std::int64_t layerIndex, double eps) {
    const ModelDimensions &d = b.model.dims;
    b.define(attentionProgram(b, facts));
    const ModuleIndex attention = b.model.tree.add(layer, "self_attn", b.prefix + "Attention");
    const std::string type = facts.layerTypes.empty() ? "full_attention"
                                                      : facts.layerTypes[static_cast<std::size_t>(layerIndex)];
    Module &module = b.at(attention);
    module.calledWithKeywords = module.returnsTuple = true;
    module.forwardProgram = b.attentionForward(b.prefix + "Attention.forward");
    module.attributes = {{"layer_idx", layerIndex},
                         {"head_dim", d.headDim},
                         {"num_attention_heads", d.heads},
                         {"num_key_value_heads", d.kvHeads},
                         {"num_key_value_groups", d.heads / d.kvHeads},
                         {"scaling", facts.attentionScale > 0 ? facts.attentionScale
                                                              : 1.0 / std::sqrt(static_cast<double>(d.headDim))},
                         {"layer_type", type},
                         {"sliding_window", type == slidingType ? facts.slidingWindow : std::int64_t{0}}};
    if (facts.sinks)
        module.parameters.push_back({"sinks", {d.heads}, b.model.dtype, b.initStd, 0.0});
    addProjections(b, attention, facts, eps);
}

} // namespace tpscope::blocks
