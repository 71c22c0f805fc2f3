// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>

#include "arch/decoderblocks.h"

// Gemma3 as a description of nothing but forward programs, to try what llama and qwen3 never use:
// sliding windows, a mask a layer type, rope a layer type in a loop over a set, norms after
// attention and mlp, norms after all projections. Source: transformers 5.21.1
// models/gemma3/modeling_gemma3.py.
namespace tpscope::test {

using namespace blocks;

inline void gemma3Projection(Body &body, const std::string &name) {
    body.push_back(callModule(name, {"x"}, {name + "_out"}));
    body.push_back(op(OpKind::ViewHeads, {name + "_out"}, {name + "_view"}));
    body.push_back(op(OpKind::Transpose, {name + "_view"}, {name + "_heads"}));
}

inline ForwardProgram gemma3Attention() {
    ForwardProgram program{"Gemma3Attention.forward",
                           "forward@modeling_gemma3.py",
                           {"x", "cos", "sin", "mask", "cache"},
                           {"output"},
                           {},
                           false};
    Body &body = program.body;
    for (const char *name : {"q_proj", "k_proj", "v_proj"})
        gemma3Projection(body, name);
    body.push_back(callModule("q_norm", {"q_proj_heads"}, {"q_normed"}));
    body.push_back(callModule("k_norm", {"k_proj_heads"}, {"k_normed"}));
    body.push_back(op(OpKind::Rope, {"q_normed", "k_normed", "cos", "sin"}, {"q", "k"}));
    Operation update;
    update.kind = OpKind::CacheUpdate;
    update.in = {"k", "v_proj_heads", "cache"};
    update.out = {"keys", "values"};
    update.reads = {{GuardRead::Kind::SelfAttribute, "layer_idx"},
                    {GuardRead::Kind::CacheLength, "layer_idx"}};
    body.push_back(op(update));
    body.push_back(op(OpKind::Attend, {"q", "keys", "values", "mask"}, {"attended"}));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}));
    body.push_back(callModule("o_proj", {"merged"}, {"output"}));
    return program;
}

inline ForwardProgram gemma3Layer() {
    return {"Gemma3DecoderLayer.forward",
            "forward@modeling_gemma3.py",
            {"x", "mask", "cos", "sin", "cache"},
            {"output"},
            {callModule("input_layernorm", {"x"}, {"normed"}),
             callModule("self_attn", {"normed", "cos", "sin", "mask", "cache"}, {"attended"}),
             callModule("post_attention_layernorm", {"attended"}, {"attended_normed"}),
             op(OpKind::Add, {"x", "attended_normed"}, {"after"}),
             callModule("pre_feedforward_layernorm", {"after"}, {"mlp_in"}),
             callModule("mlp", {"mlp_in"}, {"mlp_out"}),
             callModule("post_feedforward_layernorm", {"mlp_out"}, {"mlp_normed"}),
             op(OpKind::Add, {"after", "mlp_normed"}, {"output"})},
            false};
}

inline std::string gemma3Mask(Builder &b, const std::string &id, const std::string &type) {
    Operation mask;
    mask.kind = OpKind::CausalMask;
    mask.in = {"inputs_embeds", "cache"};
    mask.out = {"mask"};
    mask.attributes = {{"layer_type", type}};
    mask.reads = {{GuardRead::Kind::CacheLength, type}};
    b.define({id, id + "@masking_utils.py", mask.in, mask.out, {op(mask)}, false});
    return b.maskFunction(id);
}

inline ForwardProgram gemma3Model(Builder &b, const std::vector<std::string> &types) {
    ForwardProgram program{"Gemma3TextModel.forward",
                           "forward@modeling_gemma3.py",
                           {"input_ids", "position_ids", "cache"},
                           {"last_hidden_state"},
                           {},
                           false};
    Body &body = program.body;
    body.push_back(callModule("embed_tokens", {"input_ids"}, {"x"}));
    const std::vector<std::string> both{"full_attention", "sliding_attention"};
    body.push_back(
        callFunction(gemma3Mask(b, "create_causal_mask", both[0]), {"x", "cache"}, {"mask0"}));
    body.push_back(callFunction(gemma3Mask(b, "create_sliding_window_causal_mask", both[1]),
                                {"x", "cache"}, {"mask1"}));
    TryBlock ropes{{}, true}; // for layer_type in set(layer_types)
    for (std::size_t i = 0; i < both.size(); ++i)
        if (std::ranges::find(types, both[i]) != types.end()) {
            const std::string n = std::to_string(i);
            CallModule call{"rotary_emb",
                            {"x", "position_ids"},
                            {"cos" + n, "sin" + n},
                            false,
                            {{"layer_type", both[i]}}};
            ropes.body.push_back({std::move(call), "rotary_emb"});
        }
    body.push_back({std::move(ropes), "for layer_type in set(layer_types)"});
    LoopModules loop{"layers", "layer", {"x"}, {}};
    for (const std::string value : {"mask", "cos", "sin"}) {
        Operation select;
        select.kind = OpKind::Select;
        select.in = {value + "0", value + "1"};
        select.out = {value};
        select.attributes = {
            {"by", std::string("layer_type")}, {"choice0", both[0]}, {"choice1", both[1]}};
        select.graphOps = 0;
        loop.body.push_back(op(select));
    }
    loop.body.push_back(
        {CallModule{"layer", {"x", "mask", "cos", "sin", "cache"}, {"x"}, true}, "layer"});
    body.push_back({std::move(loop), "for layer in layers"});
    body.push_back(callModule("norm", {"x"}, {"last_hidden_state"}));
    return program;
}

inline void gemma3Modules(Builder &b, ModuleIndex base, const std::vector<std::string> &types,
                          std::int64_t inner, std::int64_t window) {
    const ModelDimensions &d = b.model.dims;
    b.embedding(base, "embed_tokens", d.vocab, d.hidden);
    Operation lookup;
    lookup.kind = OpKind::Embedding;
    lookup.in = {"ids"};
    lookup.out = {"rows"};
    lookup.parameters = {"weight"};
    b.define({"ScaledEmbedding.forward",
              "forward@modeling_gemma3.py",
              {"ids"},
              {"rows"},
              {op(lookup)},
              false});
    b.at(*b.model.tree.indexOf("model.embed_tokens")).forwardProgram = "ScaledEmbedding.forward";
    Operation table;
    table.kind = OpKind::RopeTable;
    table.in = {"x", "position_ids"};
    table.out = {"cos", "sin"};
    table.reads = {{GuardRead::Kind::Argument, "layer_type"}};
    b.define({"Gemma3Rotary.forward",
              "forward@modeling_gemma3.py",
              {"x", "position_ids", "layer_type"},
              {"cos", "sin"},
              {op(table)},
              false});
    b.at(b.model.tree.add(base, "rotary_emb", "Gemma3Rotary")).forwardProgram = b.wrap(
        "Gemma3Rotary.forward", "dynamic_rope_update", "wrapper@modeling_rope_utils.py", false);
    const ModuleIndex list = b.model.tree.add(base, "layers", "ModuleList");
    for (std::size_t i = 0; i < types.size(); ++i) {
        const ModuleIndex layer = b.model.tree.add(list, std::to_string(i), "Gemma3DecoderLayer");
        b.at(layer).attributes = {{"layer_type", types[i]}};
        b.decoderLayerForward(b.at(layer), "Gemma3DecoderLayer.forward");
        const ModuleIndex attention = b.model.tree.add(layer, "self_attn", "Gemma3Attention");
        b.at(attention).forwardProgram = b.attentionForward("Gemma3Attention.forward");
        b.at(attention).attributes = {
            {"layer_idx", static_cast<std::int64_t>(i)},
            {"head_dim", d.headDim},
            {"layer_type", types[i]},
            {"sliding_window", types[i] == "sliding_attention" ? window : std::int64_t{0}}};
        b.linear(attention, "q_proj", d.hidden, d.heads * d.headDim, false);
        b.linear(attention, "k_proj", d.hidden, d.kvHeads * d.headDim, false);
        b.linear(attention, "v_proj", d.hidden, d.kvHeads * d.headDim, false);
        b.linear(attention, "o_proj", d.heads * d.headDim, d.hidden, false);
        for (const char *norm : {"q_norm", "k_norm"})
            b.rmsNorm(attention, norm, d.headDim, 1e-6);
        for (const char *norm : {"input_layernorm", "post_attention_layernorm",
                                 "pre_feedforward_layernorm", "post_feedforward_layernorm"})
            b.rmsNorm(layer, norm, d.hidden, 1e-6);
        b.gatedMlp(layer, "mlp", d.hidden, inner, false, "gelu_pytorch_tanh");
    }
    b.rmsNorm(base, "norm", d.hidden, 1e-6);
}

inline Result<ModelDescription> describeGemma3(const ModelConfig &config,
                                               const Upstream &upstream) {
    Builder b;
    b.upstream = upstream;
    b.prefix = "Gemma3";
    b.pythonFile = "modeling_gemma3.py";
    b.model.config = config;
    b.model.className = "Gemma3ForCausalLM";
    b.model.baseModelPrefix = "model";
    if (const auto read = readDimensions(b.model); !read)
        return tl::unexpected(read.error());
    const auto types = config.json().at("layer_types").get<std::vector<std::string>>();
    const ModuleIndex root = b.model.tree.add(std::nullopt, "", b.model.className);
    const ModuleIndex base = b.model.tree.add(root, "model", "Gemma3TextModel");
    b.define(gemma3Attention());
    b.define(gemma3Layer());
    b.define(gemma3Model(b, types));
    b.define({"Gemma3ForCausalLM.forward",
              "forward@modeling_gemma3.py",
              {"input_ids", "position_ids", "cache"},
              {"logits"},
              {callModule("model", {"input_ids", "position_ids", "cache"}, {"x"}),
               op(OpKind::SliceTokens, {"x"}, {"sliced"}),
               callModule("lm_head", {"sliced"}, {"logits"})},
              false});
    gemma3Modules(b, base, types, config.json().at("intermediate_size"),
                  config.json().at("sliding_window"));
    b.linear(root, "lm_head", b.model.dims.hidden, b.model.dims.vocab, false);
    b.at(base).forwardProgram =
        b.baseModelForward("Gemma3TextModel.forward", DecoratorPlace::Innermost);
    b.at(root).forwardProgram =
        b.causalLmForward("Gemma3ForCausalLM.forward", DecoratorPlace::Innermost);
    return std::move(b.model);
}

} // namespace tpscope::test
