// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/decoderblocks.h"

#include <algorithm>
#include <cmath>

namespace tpscope::blocks {
namespace {

constexpr const char *slidingType = "sliding_attention";

Operation reading(OpKind kind, std::vector<Var> in, std::vector<Var> out, std::vector<GuardRead> reads,
                  int graphOps) {
    Operation operation;
    operation.kind = kind;
    operation.in = std::move(in);
    operation.out = std::move(out);
    operation.reads = std::move(reads);
    operation.graphOps = graphOps;
    return operation;
}

// One projection with its view into heads, its norm (qk-norm families) and the transpose to [B, heads, T, D].
void projection(Body &body, const std::string &name, const std::string &normName) {
    body.push_back(callModule(name, {"hidden_states"}, {name + "_out"}));
    body.push_back(op(OpKind::ViewHeads, {name + "_out"}, {name + "_view"}, name + "(x).view"));
    std::string current = name + "_view";
    if (!normName.empty()) {
        body.push_back(callModule(normName, {current}, {normName + "_out"}));
        current = normName + "_out";
    }
    body.push_back(op(OpKind::Transpose, {current}, {name + "_heads"}, "transpose(1, 2)"));
}

ForwardProgram attentionProgram(const Builder &b, const DecoderFacts &facts) {
    ForwardProgram program;
    program.id = b.prefix + "Attention.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"attn_output"};
    Body &body = program.body;
    projection(body, "q_proj", facts.qkNorm ? "q_norm" : "");
    projection(body, "k_proj", facts.qkNorm ? "k_norm" : "");
    projection(body, "v_proj", "");
    body.push_back(op(OpKind::Rope, {"q_proj_heads", "k_proj_heads", "cos", "sin"}, {"q", "k"},
                      "apply_rotary_pos_emb"));
    body.push_back(op(reading(OpKind::CacheUpdate, {"k", "v_proj_heads", "cache"}, {"keys", "values"},
                              {{GuardRead::Kind::SelfAttribute, "layer_idx"},
                               {GuardRead::Kind::CacheLength, "layer_idx"}},
                              2),
                      "past_key_values.update"));
    body.push_back(op(OpKind::Attend, {"q", "keys", "values", "attention_mask"}, {"attended"}, "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(callModule("o_proj", {"merged"}, {"attn_output"}));
    return program;
}

ForwardProgram layerProgram(const Builder &b) {
    ForwardProgram program;
    program.id = b.prefix + "DecoderLayer.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "attention_mask", "cos", "sin", "cache"};
    program.outputs = {"output"};
    program.body = {
        callModule("input_layernorm", {"hidden_states"}, {"normed"}),
        callModule("self_attn", {"normed", "cos", "sin", "attention_mask", "cache"}, {"attn_output"}),
        op(OpKind::Add, {"hidden_states", "attn_output"}, {"after_attention"}, "residual + attention"),
        callModule("post_attention_layernorm", {"after_attention"}, {"normed_again"}),
        callModule("mlp", {"normed_again"}, {"mlp_output"}),
        op(OpKind::Add, {"after_attention", "mlp_output"}, {"output"}, "residual + mlp"),
    };
    return program;
}

// The functions that build masks. Their frames read the cache length of the layer they look at, where it slides.
std::string maskProgram(Builder &b, const std::string &layerType) {
    const bool sliding = layerType == slidingType;
    const std::string id = sliding ? "create_sliding_window_causal_mask" : "create_causal_mask";
    Operation mask = reading(OpKind::CausalMask, {"inputs_embeds", "attention_mask", "cache", "position_ids"},
                             {"mask"}, {}, sliding ? 31 : 24);
    mask.attributes = {{"layer_type", layerType}};
    mask.reads = {{GuardRead::Kind::CacheLength, layerType}};
    b.define({id, id + "@masking_utils.py", mask.in, mask.out, {op(mask)}, false});
    return b.maskFunction(id);
}

ForwardProgram modelProgram(Builder &b, const std::vector<std::string> &types, bool mapping) {
    ForwardProgram program;
    program.id = b.prefix + "Model.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"input_ids", "attention_mask", "position_ids", "cache"};
    program.outputs = {"last_hidden_state"};
    Body &body = program.body;
    body.push_back(callModule("embed_tokens", {"input_ids"}, {"hidden_states"}));
    std::vector<Var> masks;
    for (const std::string &type : types) {
        masks.push_back("mask_" + type);
        body.push_back(callFunction(maskProgram(b, type),
                                    {"hidden_states", "attention_mask", "cache", "position_ids"}, {masks.back()}));
    }
    body.push_back(callModule("rotary_emb", {"hidden_states", "position_ids"}, {"cos", "sin"}));
    LoopModules loop{"layers", "decoder_layer", {"hidden_states"}, {}};
    std::string mask = masks.front();
    if (mapping && masks.size() > 1) {
        Operation select = reading(OpKind::Select, masks, {"layer_mask"}, {}, 0);
        select.attributes = {{"by", std::string("layer_type")}};
        for (std::size_t i = 0; i < types.size(); ++i)
            select.attributes.emplace("choice" + std::to_string(i), types[i]);
        loop.body.push_back(op(select, "causal_mask_mapping[layer_types[i]]"));
        mask = "layer_mask";
    }
    loop.body.push_back({CallModule{"decoder_layer", {"hidden_states", mask, "cos", "sin", "cache"},
                                    {"hidden_states"}, true},
                         "decoder_layer"});
    body.push_back({std::move(loop), "for decoder_layer in self.layers"});
    body.push_back(callModule("norm", {"hidden_states"}, {"last_hidden_state"}));
    return program;
}

ForwardProgram causalLmProgram(const Builder &b) {
    ForwardProgram program;
    program.id = b.prefix + "ForCausalLM.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"input_ids", "attention_mask", "position_ids", "cache"};
    program.outputs = {"logits"};
    program.body = {
        callModule("model", {"input_ids", "attention_mask", "position_ids", "cache"}, {"last_hidden_state"}),
        op(OpKind::SliceTokens, {"last_hidden_state"}, {"sliced"}, "hidden_states[:, slice_indices]"),
        callModule("lm_head", {"sliced"}, {"logits"}),
    };
    return program;
}

struct Inner {
    std::int64_t intermediate;
    std::string activation;
    double eps;
    bool tied;
};

Result<Inner> readInner(const ModelConfig &config) {
    const auto intermediate = config.integer("intermediate_size");
    if (!intermediate)
        return tl::unexpected(intermediate.error());
    const auto activation = config.text("hidden_act", "silu");
    if (!activation)
        return tl::unexpected(activation.error());
    const auto eps = config.real("rms_norm_eps", 1e-6);
    if (!eps)
        return tl::unexpected(eps.error());
    const auto tied = config.flag("tie_word_embeddings", false);
    if (!tied)
        return tl::unexpected(tied.error());
    return Inner{*intermediate, *activation, *eps, *tied};
}

void addAttention(Builder &b, ModuleIndex layer, const DecoderFacts &facts, std::int64_t layerIndex, double eps) {
    const ModelDimensions &d = b.model.dims;
    const ModuleIndex attention = b.model.tree.add(layer, "self_attn", b.prefix + "Attention");
    const std::string type = facts.layerTypes.empty() ? "full_attention"
                                                      : facts.layerTypes[static_cast<std::size_t>(layerIndex)];
    Module &module = b.at(attention);
    module.calledWithKeywords = module.returnsTuple = true;
    module.attributes = {{"layer_idx", layerIndex},
                         {"head_dim", d.headDim},
                         {"num_attention_heads", d.heads},
                         {"num_key_value_heads", d.kvHeads},
                         {"num_key_value_groups", d.heads / d.kvHeads},
                         {"scaling", 1.0 / std::sqrt(static_cast<double>(d.headDim))},
                         {"layer_type", type},
                         {"sliding_window", type == slidingType ? facts.slidingWindow : std::int64_t{0}}};
    b.linear(attention, "q_proj", d.hidden, d.heads * d.headDim, facts.attentionBias);
    if (facts.qkNorm)
        b.rmsNorm(attention, "q_norm", d.headDim, eps);
    b.linear(attention, "k_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    if (facts.qkNorm)
        b.rmsNorm(attention, "k_norm", d.headDim, eps);
    b.linear(attention, "v_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    b.linear(attention, "o_proj", d.heads * d.headDim, d.hidden, facts.outputBias);
}

} // namespace

Result<ModelDescription> describePreNormDecoder(const ModelConfig &config, const Upstream &upstream,
                                                const DecoderFacts &facts) {
    Builder b;
    b.upstream = upstream;
    b.prefix = facts.prefix;
    b.pythonFile = facts.pythonFile;
    b.model.config = config;
    b.model.className = facts.prefix + "ForCausalLM";
    b.model.baseModelPrefix = "model";
    if (const auto read = readDimensions(b.model); !read)
        return tl::unexpected(read.error());
    const auto inner = readInner(config);
    if (!inner)
        return tl::unexpected(inner.error());
    const auto std = config.real("initializer_range", 0.02);
    if (!std)
        return tl::unexpected(std.error());
    b.initStd = *std;

    const ModelDimensions &d = b.model.dims;
    const ModuleIndex root = b.model.tree.add(std::nullopt, "", b.model.className);
    b.at(root).returnsTuple = b.at(root).calledWithKeywords = true;
    const ModuleIndex base = b.model.tree.add(root, "model", facts.prefix + "Model");
    b.at(base).returnsTuple = b.at(base).calledWithKeywords = true;
    b.embedding(base, "embed_tokens", d.vocab, d.hidden);
    b.rotary(base, "rotary_emb");
    const ModuleIndex list = b.model.tree.add(base, "layers", "ModuleList");

    b.define(attentionProgram(b, facts));
    b.define(layerProgram(b));
    const std::string attentionId = b.attentionForward(b.prefix + "Attention.forward");
    for (std::int64_t i = 0; i < d.layers; ++i) {
        const ModuleIndex layer = b.model.tree.add(list, std::to_string(i), facts.prefix + "DecoderLayer");
        b.at(layer).attributes = {
            {"layer_idx", i},
            {"layer_type", facts.layerTypes.empty() ? std::string("full_attention")
                                                    : facts.layerTypes[static_cast<std::size_t>(i)]}};
        b.decoderLayerForward(b.at(layer), b.prefix + "DecoderLayer.forward");
        b.rmsNorm(layer, "input_layernorm", d.hidden, inner->eps);
        addAttention(b, layer, facts, i, inner->eps);
        b.at(*b.model.tree.resolve(layer, "self_attn")).forwardProgram = attentionId;
        b.rmsNorm(layer, "post_attention_layernorm", d.hidden, inner->eps);
        b.gatedMlp(layer, "mlp", d.hidden, inner->intermediate, facts.mlpBias, inner->activation);
    }
    b.rmsNorm(base, "norm", d.hidden, inner->eps);
    b.linear(root, "lm_head", d.hidden, d.vocab, false);
    if (inner->tied)
        b.model.tree.ties.push_back({"lm_head.weight", "model.embed_tokens.weight"});

    std::vector<std::string> types;
    for (const std::string &type : facts.layerTypes)
        if (std::ranges::find(types, type) == types.end())
            types.push_back(type);
    if (types.empty())
        types.push_back(facts.slidingWindow > 0 ? slidingType : "full_attention");
    b.define(modelProgram(b, types, !facts.layerTypes.empty()));
    b.define(causalLmProgram(b));
    b.at(base).forwardProgram =
        b.baseModelForward(b.prefix + "Model.forward", facts.modelDeprecateKwarg);
    b.at(root).forwardProgram =
        b.causalLmForward(b.prefix + "ForCausalLM.forward", facts.causalLmDeprecateKwarg);
    return std::move(b.model);
}

} // namespace tpscope::blocks
