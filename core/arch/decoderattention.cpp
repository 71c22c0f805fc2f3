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

// clamp_ of q, k and v; gives the variable they are in now.
Var clipped(Body &body, const Var &in, bool clips) {
    if (!clips)
        return in;
    Operation clamp;
    clamp.kind = OpKind::Clamp;
    clamp.in = {in};
    clamp.out = {in + "_clipped"};
    clamp.attributes = {{"in_place", true}};
    body.push_back(op(std::move(clamp), "clamp_"));
    return in + "_clipped";
}

// q, k and v each by a projection of its own.
void projectSeparately(Body &body, QkNorm qkNorm, bool clips) {
    const auto normOf = [](const std::string &name) { return name == "v_proj" ? "" : name == "q_proj" ? "q_norm" : "k_norm"; };
    for (const std::string name : {"q_proj", "k_proj", "v_proj"}) {
        Var current = name + "_out";
        body.push_back(callModule(name, {"hidden_states"}, {current}));
        if (const std::string whole = qkNorm == QkNorm::Projection ? normOf(name) : ""; !whole.empty())
            norm(body, whole, current);
        if (qkNorm == QkNorm::AfterViews)
            body.push_back(op(OpKind::ViewHeads, {current}, {name + "_view"}, name + "(x).view"));
        else if (qkNorm != QkNorm::Projection)
            toHeads(body, name, current, qkNorm == QkNorm::PerHead ? normOf(name) : "");
    }
    if (qkNorm == QkNorm::Projection) {
        toHeads(body, "q_proj", clipped(body, "q_norm_out", clips), "");
        toHeads(body, "k_proj", clipped(body, "k_norm_out", clips), "");
        toHeads(body, "v_proj", clipped(body, "v_proj_out", clips), "");
    }
    if (qkNorm == QkNorm::AfterViews) {
        Var views[] = {"q_proj_view", "k_proj_view", "v_proj_view"};
        norm(body, "q_norm", views[0]);
        norm(body, "k_norm", views[1]);
        for (int i = 0; i < 3; ++i)
            body.push_back(op(OpKind::Transpose, {views[i]}, {std::string(1, "qkv"[i]) + "_proj_heads"}, "transpose(1, 2)"));
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
        projectSeparately(body, facts.qkNorm, facts.clip > 0.0);
    Var queries = "q_proj_heads", keys = "k_proj_heads";
    if (facts.qkNorm == QkNorm::AfterTranspose) {
        norm(body, "q_norm", queries);
        norm(body, "k_norm", keys);
    }
    rotate(body, facts, queries, keys, b.model.dims.headDim);
    if (facts.positionScale)
        body.push_back(op(OpKind::PositionScale, {"q"}, {"q_scaled"}, "* get_llama_4_attn_scale(position_ids)"));
    body.push_back(cacheUpdate("k", "v_proj_heads", {"keys", "values"}, "past_key_values.update"));
    Operation attend;
    attend.kind = facts.attentionSoftcap > 0.0 ? OpKind::CappedAttend : OpKind::Attend;
    attend.in = {facts.positionScale ? "q_scaled" : "q", "keys", "values", "attention_mask"};
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

void rotate(Body &body, const DecoderFacts &facts, const Var &queries, const Var &keys, std::int64_t headDim) {
    const bool part = facts.rotary > 0 && facts.rotary < headDim;
    Operation rope;
    rope.kind = OpKind::Rope;
    rope.in = {queries, keys, "cos", "sin"};
    rope.out = {"q", "k"};
    rope.onlyIf = facts.ropeIf;
    if (facts.interleave)
        rope.attributes = {{"interleave", true}};
    if (!part) {
        body.push_back(op(std::move(rope), "apply_rotary_pos_emb"));
        return;
    }
    for (const Var &heads : {queries, keys}) {
        body.push_back(sliceOfLast(heads, 0, facts.rotary, heads + "_rot"));
        body.push_back(sliceOfLast(heads, facts.rotary, headDim, heads + "_pass"));
    }
    rope.in = {queries + "_rot", keys + "_rot", "cos", "sin"};
    rope.out = {"q_rotated", "k_rotated"};
    body.push_back(op(std::move(rope), "apply_rotary_pos_emb"));
    body.push_back(op(OpKind::CatHeads, {"q_rotated", queries + "_pass"}, {"q"}, "cat(q_embed, q_pass)"));
    body.push_back(op(OpKind::CatHeads, {"k_rotated", keys + "_pass"}, {"k"}, "cat(k_embed, k_pass)"));
}

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
    if (facts.attentionSoftcap > 0.0)
        module.attributes.emplace("softcap", facts.attentionSoftcap);
    if (facts.clip > 0.0)
        module.attributes.emplace("clip", facts.clip);
    if (!facts.ropeIf.empty())
        module.attributes[facts.ropeIf] = static_cast<bool>(facts.ropeLayers[static_cast<std::size_t>(layerIndex)]);
    if (facts.sinks)
        module.parameters.push_back({"sinks", {d.heads}, b.model.dtype, b.initStd, 0.0});
    addProjections(b, attention, facts, eps);
}

} // namespace tpscope::blocks
