// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/decoderblocks.h"

#include <algorithm>

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

// One half of a layer: norm, module, norm, dropout, residual; each but the module where the family has it.
struct Half {
    std::string before, module, after, dropout;
    std::vector<Var> arguments; // of the module, behind its first
    bool scaled = false;        // what it adds
};

void addHalf(Body &body, const Half &half, const Var &in, const Var &out) {
    Var current = in;
    if (!half.before.empty()) {
        body.push_back(callModule(half.before, {current}, {half.before + "_out"}));
        current = half.before + "_out";
    }
    std::vector<Var> arguments{current};
    arguments.insert(arguments.end(), half.arguments.begin(), half.arguments.end());
    current = half.module + "_out";
    body.push_back(callModule(half.module, arguments, {current}));
    for (const std::string &next : {half.after, half.dropout})
        if (!next.empty()) {
            body.push_back(callModule(next, {current}, {next + "_out"}));
            current = next + "_out";
        }
    if (half.scaled) {
        body.push_back(op(OpKind::Scale, {current}, {half.module + "_scaled"}, "* residual_multiplier"));
        current = half.module + "_scaled";
    }
    body.push_back(op(OpKind::Add, {in, current}, {out},
                      half.arguments.empty() ? "residual + mlp" : "residual + attention"));
}

// Attention and mlp side by side.
void addParallel(Body &body, const DecoderFacts &facts) {
    const std::string normed = facts.normBeforeAttention + "_out";
    body.push_back(callModule(facts.normBeforeAttention, {"hidden_states"}, {normed}));
    body.push_back(callModule("self_attn", {normed, "cos", "sin", "attention_mask", "cache"}, {"self_attn_out"}));
    body.push_back(callModule(facts.mlpName, {normed}, {"mlp_out"}));
    body.push_back(op(OpKind::Add, {"hidden_states", "self_attn_out"}, {"after_attention"}, "residual + attention"));
    body.push_back(op(OpKind::Add, {"after_attention", "mlp_out"}, {"output"}, "residual + mlp"));
}

// Of layers of one type, where types have attention modules of different names; else of all ("").
std::string layerProgramId(const Builder &b, const DecoderFacts &facts, const std::string &type) {
    return b.prefix + "DecoderLayer.forward" + (facts.attentionNames.empty() ? "" : "(" + type + ")");
}

ForwardProgram layerProgram(const Builder &b, const DecoderFacts &facts, const std::string &type) {
    ForwardProgram program;
    program.id = layerProgramId(b, facts, type);
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "attention_mask", "cos", "sin", "cache"};
    program.outputs = {"output"};
    if (!facts.attentionNames.empty()) {
        program.codeObject = b.prefix + "DecoderLayer.forward";
        Operation branch = reading(OpKind::Select, {"hidden_states"}, {"hidden_states"},
                                   {{GuardRead::Kind::SelfAttribute, "layer_type"}}, 0);
        branch.attributes = {{"by", std::string("layer_type")}, {"choice0", type}};
        program.body.push_back(op(std::move(branch), "if self.block_type"));
    }
    const auto named = facts.attentionNames.find(type);
    const std::string attention = named == facts.attentionNames.end() ? "self_attn" : named->second;
    if (facts.parallel) {
        addParallel(program.body, facts);
        return program;
    }
    const bool scaled = facts.residualFactor != 0.0;
    addHalf(program.body,
            {facts.normBeforeAttention, attention, facts.normAfterAttention,
             facts.residualDropout ? "resid_attn_dropout" : "", {"cos", "sin", "attention_mask", "cache"}, scaled},
            "hidden_states", "after_attention");
    addHalf(program.body,
            {facts.normBeforeMlp, facts.mlpName, facts.normAfterMlp, facts.residualDropout ? "resid_mlp_dropout" : "", {},
             scaled},
            "after_attention", "output");
    return program;
}

// The functions that build masks. Their frames read the cache length of the layer they look at, where it slides.
std::string maskProgram(Builder &b, const std::string &layerType) {
    const bool sliding = layerType == slidingType;
    const std::string id = sliding                              ? "create_sliding_window_causal_mask"
                           : layerType == "chunked_attention" ? "create_chunked_causal_mask"
                           : layerType == "linear_attention"  ? "create_recurrent_attention_mask"
                                                              : "create_causal_mask";
    if (layerType == "linear_attention") { // none without padding
        b.define({id, id + "@masking_utils.py", {"inputs_embeds", "attention_mask", "cache", "position_ids"}, {"none"}, {}, false});
        return b.maskFunction(id);
    }
    Operation mask = reading(OpKind::CausalMask, {"inputs_embeds", "attention_mask", "cache", "position_ids"},
                             {"mask"}, {}, sliding ? 31 : 24);
    mask.attributes = {{"layer_type", layerType}};
    mask.reads = {{GuardRead::Kind::CacheLength, layerType}};
    b.define({id, id + "@masking_utils.py", mask.in, mask.out, {op(mask)}, false});
    return b.maskFunction(id);
}

// A choice by the layer's type among one variable a type.
Statement byLayerType(const std::vector<Var> &choices, const std::vector<std::string> &types, const Var &out,
                      const std::string &label) {
    Operation select = reading(OpKind::Select, choices, {out}, {}, 0);
    select.attributes = {{"by", std::string("layer_type")}};
    for (std::size_t i = 0; i < types.size(); ++i)
        select.attributes.emplace("choice" + std::to_string(i), types[i]);
    return op(std::move(select), label);
}

// The tables of rotary embeddings: one call, or a Python loop over the layer types.
std::vector<Var> addRotaryTables(Body &body, LoopModules &loop, const std::vector<std::string> &types, bool byType) {
    if (!byType) {
        body.push_back(callModule("rotary_emb", {"hidden_states", "position_ids"}, {"cos", "sin"}));
        return {"cos", "sin"};
    }
    TryBlock calls{{}, true};
    std::vector<Var> cosines, sines;
    for (const std::string &type : types) {
        cosines.push_back("cos_" + type);
        sines.push_back("sin_" + type);
        CallModule call{"rotary_emb", {"hidden_states", "position_ids", ""}, {cosines.back(), sines.back()}};
        call.constants = {{"layer_type", type}};
        calls.body.push_back({std::move(call), {}});
    }
    body.push_back({std::move(calls), "for layer_type in set(layer_types)"});
    loop.body.push_back(byLayerType(cosines, types, "layer_cos", "position_embeddings[layer_types[i]]"));
    loop.body.push_back(byLayerType(sines, types, "layer_sin", "position_embeddings[layer_types[i]]"));
    return {"layer_cos", "layer_sin"};
}

// types: those that occur among the layers; masks: those that are built.
ForwardProgram modelProgram(Builder &b, const DecoderFacts &facts, const std::vector<std::string> &types,
                            const std::vector<std::string> &masks) {
    ForwardProgram program;
    program.id = b.prefix + facts.modelName + ".forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"input_ids", "attention_mask", "position_ids", "cache"};
    program.outputs = {"last_hidden_state"};
    Body &body = program.body;
    const Var embeddings = facts.embeddingFactor != 0.0 ? "embedded" : "hidden_states";
    body.push_back(callModule("embed_tokens", {"input_ids"}, {embeddings}));
    if (facts.embeddingFactor != 0.0)
        body.push_back(op(OpKind::Scale, {embeddings}, {"hidden_states"}, "* embedding_multiplier"));
    std::vector<Var> built;
    TryBlock inLoop{{}, true};
    for (const std::string &type : masks) {
        built.push_back("mask_" + type);
        std::string build = maskProgram(b, type);
        if (facts.masksInLoop) // a mapping of lambdas, one code object each
            build = b.wrap(build, "lambda " + type, "<lambda>@" + b.pythonFile, false);
        (facts.masksInLoop ? inLoop.body : body)
            .push_back(callFunction(build, {"hidden_states", "attention_mask", "cache", "position_ids"}, {built.back()}));
    }
    if (facts.masksInLoop)
        body.push_back({std::move(inLoop), "for layer_type in set(layer_types)"});
    LoopModules loop{"layers", "decoder_layer", {"hidden_states"}, {}};
    const std::vector<Var> tables = addRotaryTables(body, loop, types, facts.ropeByLayerType);
    Var mask = built.front();
    if (built.size() > 1) {
        loop.body.push_back(byLayerType(built, masks, "layer_mask", "causal_mask_mapping[layer_types[i]]"));
        mask = "layer_mask";
    }
    loop.body.push_back({CallModule{"decoder_layer", {"hidden_states", mask, tables[0], tables[1], "cache"},
                                    {"hidden_states"}, true},
                         "decoder_layer"});
    body.push_back({std::move(loop), "for decoder_layer in self.layers"});
    body.push_back(callModule("norm", {"hidden_states"}, {"last_hidden_state"}));
    return program;
}

ForwardProgram causalLmProgram(const Builder &b, const DecoderFacts &facts) {
    ForwardProgram program;
    program.id = b.model.className + ".forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"input_ids", "attention_mask", "position_ids", "cache"};
    program.outputs = {"logits"};
    program.body = {
        callModule("model", {"input_ids", "attention_mask", "position_ids", "cache"}, {"last_hidden_state"}),
        op(OpKind::SliceTokens, {"last_hidden_state"}, {"sliced"}, "hidden_states[:, slice_indices]"),
        callModule("lm_head", {"sliced"}, {"logits"}),
    };
    if (facts.logitsFactor != 0.0)
        program.body.push_back(op(OpKind::Scale, {"logits"}, {"scaled_logits"}, "logits scaled"));
    if (facts.logitsSoftcap != 0.0)
        program.body.push_back(op(OpKind::Softcap, {"logits"}, {"scaled_logits"}, "final_logit_softcapping"));
    if (facts.logitsFactor != 0.0 || facts.logitsSoftcap != 0.0)
        program.outputs = {"scaled_logits"};
    return program;
}

struct Inner {
    std::int64_t intermediate;
    std::string activation;
    double eps;
    bool tied;
};

Result<Inner> readInner(const ModelConfig &config, const DecoderFacts &facts) {
    const auto intermediate = config.integer("intermediate_size");
    if (!intermediate)
        return tl::unexpected(intermediate.error());
    const auto activation = config.text(facts.activationKey, facts.activation);
    if (!activation)
        return tl::unexpected(activation.error());
    const auto eps = config.real(facts.normEpsKey, facts.normEps);
    if (!eps)
        return tl::unexpected(eps.error());
    const auto tied = config.flag("tie_word_embeddings", facts.tied);
    if (!tied)
        return tl::unexpected(tied.error());
    return Inner{*intermediate, *activation, *eps, *tied};
}

ModuleIndex addNorm(Builder &b, ModuleIndex parent, const DecoderFacts &facts, const std::string &name, double eps) {
    if (facts.norm == LayerNormKind::Rms)
        return b.rmsNorm(parent, name, b.model.dims.hidden, eps);
    return b.layerNorm(parent, name, b.model.dims.hidden, eps,
                       facts.norm == LayerNormKind::Centred ? b.prefix + "LayerNorm" : std::string());
}

void addLayer(Builder &b, ModuleIndex list, const DecoderFacts &facts, const Inner &inner, std::int64_t index) {
    const ModelDimensions &d = b.model.dims;
    const ModuleIndex layer = b.model.tree.add(list, std::to_string(index), facts.prefix + "DecoderLayer");
    b.at(layer).attributes = {{"layer_idx", index},
                              {"layer_type", facts.layerTypes.empty()
                                                 ? std::string("full_attention")
                                                 : facts.layerTypes[static_cast<std::size_t>(index)]}};
    if (facts.residualFactor != 0.0)
        b.at(layer).attributes.emplace("embed_scale", facts.residualFactor);
    b.decoderLayerForward(b.at(layer), layerProgramId(b, facts, b.at(layer).text("layer_type")));
    const auto norm = [&](const std::string &name) {
        if (!name.empty())
            addNorm(b, layer, facts, name, inner.eps);
    };
    norm(facts.normBeforeAttention);
    if (facts.addAttention)
        facts.addAttention(b, layer, index);
    else
        addSelfAttention(b, layer, facts, index, inner.eps);
    norm(facts.normAfterAttention);
    if (facts.residualDropout)
        b.dropout(layer, "resid_attn_dropout");
    norm(facts.normBeforeMlp);
    const bool ownMlp = facts.addMlp && facts.addMlp(b, layer, index);
    if (!ownMlp && facts.packed)
        b.packedMlp(layer, facts.mlpName, d.hidden, inner.intermediate, inner.activation);
    else if (!ownMlp)
        b.gatedMlp(layer, facts.mlpName, d.hidden, inner.intermediate, facts.mlpBias, inner.activation);
    norm(facts.normAfterMlp);
    if (facts.residualDropout)
        b.dropout(layer, "resid_mlp_dropout");
}

} // namespace

Result<ModelDescription> describeDecoder(const ModelConfig &config, const Upstream &upstream,
                                                const DecoderFacts &facts) {
    Builder b;
    b.upstream = upstream;
    b.prefix = facts.prefix;
    b.pythonFile = facts.pythonFile;
    b.model.config = config;
    b.model.className = facts.causalClass.empty() ? facts.prefix + "ForCausalLM" : facts.causalClass;
    b.model.baseModelPrefix = facts.basePrefix;
    if (const auto read = readDimensions(b.model, facts.defaultHeadDim, facts.ropeTheta); !read)
        return tl::unexpected(read.error());
    const auto inner = readInner(config, facts);
    if (!inner)
        return tl::unexpected(inner.error());
    const auto std = config.real("initializer_range", 0.02);
    if (!std)
        return tl::unexpected(std.error());
    b.initStd = *std;
    b.normOffset = facts.normOffset;
    b.model.attention = facts.attention;
    if (facts.headDim > 0)
        b.model.dims.headDim = facts.headDim;

    const ModelDimensions &d = b.model.dims;
    const ModuleIndex root = b.model.tree.add(std::nullopt, "", b.model.className);
    b.at(root).returnsTuple = b.at(root).calledWithKeywords = true;
    const ModuleIndex base = b.model.tree.add(root, "model", facts.prefix + facts.modelName);
    b.at(base).returnsTuple = b.at(base).calledWithKeywords = true;
    const ModuleIndex table = b.embedding(base, "embed_tokens", d.vocab, d.hidden);
    if (facts.embeddingScale != 0.0)
        b.scaleEmbedding(table, facts.prefix + facts.scaledEmbedding, facts.embeddingScale);
    const ModuleIndex rotary = b.rotary(base, "rotary_emb", facts.ropeByLayerType);
    if (facts.halfTables)
        b.at(rotary).attributes["head_dim"] = d.headDim / 2;
    if (facts.rotary > 0)
        b.at(rotary).attributes["head_dim"] = facts.rotary;
    for (const auto &[module, factor] : {std::pair{base, facts.embeddingFactor}, std::pair{root, facts.logitsFactor}})
        if (factor != 0.0)
            b.at(module).attributes.emplace("embed_scale", factor);
    if (facts.logitsSoftcap != 0.0)
        b.at(root).attributes.emplace("softcap", facts.logitsSoftcap);
    const ModuleIndex list = b.model.tree.add(base, "layers", "ModuleList");
    if (facts.attentionNames.empty())
        b.define(layerProgram(b, facts, ""));
    for (const std::string &type : facts.attentionNames.empty() ? std::vector<std::string>{} : facts.layerTypes)
        b.define(layerProgram(b, facts, type));
    for (std::int64_t i = 0; i < d.layers; ++i)
        addLayer(b, list, facts, *inner, i);
    addNorm(b, base, facts, "norm", inner->eps);
    b.linear(root, "lm_head", d.hidden, d.vocab, false);
    if (inner->tied)
        b.model.tree.ties.push_back({"lm_head.weight", "model.embed_tokens.weight"});

    std::vector<std::string> types;
    for (const std::string &type : facts.layerTypes)
        if (std::ranges::find(types, type) == types.end())
            types.push_back(type);
    if (types.empty())
        types.push_back("full_attention");
    if (facts.ropeByLayerType)
        for (const std::string &type : types) {
            const auto theta = facts.ropeThetas.find(type);
            auto rope = config.rope(type, theta == facts.ropeThetas.end() ? 10000.0 : theta->second);
            if (!rope)
                return tl::unexpected(rope.error());
            b.model.ropeByLayerType.emplace(type, std::move(*rope));
        }
    b.define(modelProgram(b, facts, types, facts.masks.empty() ? types : facts.masks));
    b.define(causalLmProgram(b, facts));
    b.at(base).forwardProgram =
        b.baseModelForward(b.prefix + facts.modelName + ".forward", facts.modelDeprecateKwarg);
    b.at(root).forwardProgram =
        b.causalLmForward(b.model.className + ".forward", facts.causalLmDeprecateKwarg);
    if (facts.rotary > 0) { // the tables are as wide as what rotates, whatever their type
        b.model.dims.headDim = facts.rotary;
        b.model.rope.numbers.erase("partial_rotary_factor");
    }
    return std::move(b.model);
}

} // namespace tpscope::blocks
