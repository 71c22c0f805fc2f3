// SPDX-License-Identifier: GPL-3.0-or-later
// Llama4ForCausalLM (model_type llama4_text), transformers 5.24 models/llama4/modeling_llama4.py: layers that rotate attend
// within chunks and norm q and k without a weight, the others scale queries by their positions; experts that are given
// every token, times its score.
#include "arch/llama4.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

using namespace blocks;

struct Attention {
    double eps = 1e-5;
    bool norms = true;  // q and k of layers that rotate
    bool scales = true; // queries of layers that do not
};

struct Experts {
    std::int64_t count = 16, chosen = 1, inner = 8192;
    std::string activation;
};

void readLayers(const ModelConfig &config, ConfigReads &reads, DecoderFacts &facts) {
    const std::int64_t interval = reads.count("no_rope_layer_interval", 4);
    const bool whole = config.json().contains("attention_chunk_size") && !config.has("attention_chunk_size");
    facts.slidingWindow = whole ? 0 : reads.count("attention_chunk_size", 8192);
    const auto layers = readLayerCount(config);
    if (!layers)
        return reads.expect(tl::unexpected(layers.error()));
    auto types = readLayerTypes(config, *layers, {"full_attention", "chunked_attention"});
    if (!types)
        return reads.expect(tl::unexpected(types.error()));
    auto rotating = reads.integers("no_rope_layers"); // 1 of those that do rotate
    if (!rotating || rotating->empty()) {
        rotating.emplace();
        for (std::int64_t i = 0; i < *layers; ++i)
            rotating->push_back((i + 1) % interval != 0 ? 1 : 0);
    }
    if (static_cast<std::int64_t>(rotating->size()) < *layers)
        return reads.expect(fail(ErrorCode::BadInput, "key \"no_rope_layers\": expected an entry a layer (" +
                                                          std::to_string(*layers) + "), found " +
                                                          std::to_string(rotating->size()),
                                 Location{config.fileName()}));
    facts.ropeIf = "use_rope";
    const bool typed = !types->empty();
    for (std::int64_t i = 0; i < *layers; ++i) {
        const bool rotates = (*rotating)[static_cast<std::size_t>(i)] != 0;
        facts.ropeLayers.push_back(rotates);
        if (!typed)
            types->push_back(rotates && facts.slidingWindow > 0 ? "chunked_attention" : "full_attention");
    }
    facts.layerTypes = std::move(*types);
}

ForwardProgram attentionProgram(const Builder &b, const std::string &id, bool rotates, const Attention &attention) {
    ForwardProgram program;
    program.id = id;
    program.codeObject = b.prefix + "Attention.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"attn_output"};
    Body &body = program.body;
    for (const std::string name : {"q_proj", "k_proj", "v_proj"}) {
        body.push_back(callModule(name, {"hidden_states"}, {name + "_out"}));
        body.push_back(op(OpKind::ViewHeads, {name + "_out"}, {name + "_view"}, name + "(x).view"));
        body.push_back(op(OpKind::Transpose, {name + "_view"}, {name + "_heads"}, "transpose(1, 2)"));
    }
    Operation rope;
    rope.kind = OpKind::Rope;
    rope.in = {"q_proj_heads", "k_proj_heads", "cos", "sin"};
    rope.out = {"q", "k"};
    rope.onlyIf = "use_rope";
    rope.attributes = {{"interleave", true}};
    body.push_back(op(std::move(rope), "apply_rotary_emb"));
    Var queries = "q", keys = "k";
    if (rotates && attention.norms) {
        body.push_back(callModule("qk_norm", {queries}, {"q_normed"}));
        body.push_back(callModule("qk_norm", {keys}, {"k_normed"}));
        queries = "q_normed";
        keys = "k_normed";
    }
    if (!rotates && attention.scales) {
        body.push_back(op(OpKind::PositionScale, {queries}, {"q_scaled"}, "* attn_scales"));
        queries = "q_scaled";
    }
    body.push_back(cacheUpdate(keys, "v_proj_heads", {"keys", "values"}, "cache.update"));
    body.push_back(op(OpKind::Attend, {queries, "keys", "values", "attention_mask"}, {"attended"}, "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(callModule("o_proj", {"merged"}, {"attn_output"}));
    return program;
}

void addAttention(Builder &b, ModuleIndex layer, std::int64_t index, const DecoderFacts &facts, const Attention &facets) {
    const ModelDimensions &d = b.model.dims;
    const bool rotates = facts.ropeLayers[static_cast<std::size_t>(index)];
    const std::string &type = facts.layerTypes[static_cast<std::size_t>(index)];
    const std::string id = b.prefix + "Attention.forward" + (rotates ? "" : "(no rope)");
    b.define(attentionProgram(b, id, rotates, facets));
    const ModuleIndex attention = b.model.tree.add(layer, "self_attn", b.prefix + "Attention");
    Module &module = b.at(attention);
    module.calledWithKeywords = module.returnsTuple = true;
    module.forwardProgram = b.attentionForward(id);
    module.attributes = {{"layer_idx", index},
                         {"head_dim", d.headDim},
                         {"num_attention_heads", d.heads},
                         {"num_key_value_heads", d.kvHeads},
                         {"num_key_value_groups", d.heads / d.kvHeads},
                         {"scaling", 1.0 / std::sqrt(static_cast<double>(d.headDim))},
                         {"use_rope", rotates},
                         {"layer_type", type},
                         {"sliding_window", type == "chunked_attention" ? facts.slidingWindow : std::int64_t{0}}};
    b.linear(attention, "q_proj", d.hidden, d.heads * d.headDim, facts.attentionBias);
    b.linear(attention, "k_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    b.linear(attention, "v_proj", d.hidden, d.kvHeads * d.headDim, facts.attentionBias);
    b.linear(attention, "o_proj", d.heads * d.headDim, d.hidden, facts.outputBias);
    if (!rotates || !facets.norms)
        return;
    const ModuleIndex norm = b.model.tree.add(attention, "qk_norm", b.prefix + "L2Norm");
    b.at(norm).attributes = {{"eps", facets.eps}};
    b.at(norm).forwardProgram = b.prefix + "L2Norm.forward";
    Operation unit;
    unit.kind = OpKind::UnitNorm;
    unit.in = {"x"};
    unit.out = {"output"};
    unit.graphOps = 6;
    b.define({b.prefix + "L2Norm.forward", "forward@" + b.pythonFile, {"x"}, {"output"}, {op(std::move(unit))}, false});
}

Statement product(const std::string &parameter, const Var &in, const Var &out) {
    Operation operation;
    operation.kind = OpKind::ExpertProduct;
    operation.in = {in};
    operation.out = {out};
    operation.parameters = {parameter};
    operation.attributes = {{"transposed", true}, {"batched", true}};
    return op(std::move(operation), "bmm(" + parameter + ")");
}

// A linear module that gives each expert's score: a sigmoid of the largest, zero for the others.
void addRouter(Builder &b, ModuleIndex block, const Experts &experts) {
    Module &router = b.at(b.linear(block, "router", b.model.dims.hidden, experts.count, false));
    router.className = "Llama4Router";
    router.returnsTuple = true;
    router.attributes.emplace("top_k", experts.chosen);
    router.attributes.emplace("num_experts", experts.count);
    router.forwardProgram = "Llama4Router.forward";
    Operation route;
    route.kind = OpKind::Router;
    route.in = {"hidden_states"};
    route.out = {"scores", "indices"};
    route.parameters = {"weight"};
    route.graphOps = 6;
    b.define({"Llama4Router.forward", "forward@" + b.pythonFile, {"hidden_states"}, {"scores"},
              {op(std::move(route), "router")}, false});
}

void addExperts(Builder &b, ModuleIndex layer, const Experts &facts) {
    const std::int64_t hidden = b.model.dims.hidden;
    const ModuleIndex block = b.model.tree.add(layer, "feed_forward", b.prefix + "Moe");
    b.at(block).returnsTuple = true;
    b.at(block).attributes = {{"top_k", facts.chosen}};
    b.at(block).forwardProgram = b.prefix + "Moe.forward";
    addRouter(b, block, facts);
    const ModuleIndex experts = b.model.tree.add(block, "experts", b.prefix + "Experts");
    Module &module = b.at(experts);
    module.parameters.push_back({"gate_up_proj", {facts.count, hidden, 2 * facts.inner}, b.model.dtype, b.initStd, 0.0});
    module.parameters.push_back({"down_proj", {facts.count, facts.inner, hidden}, b.model.dtype, b.initStd, 0.0});
    module.attributes = {{"num_experts", facts.count}};
    module.forwardProgram = b.prefix + "Experts.forward";
    b.activation(experts, "act_fn", facts.activation);
    b.define({b.prefix + "Experts.forward", "forward@" + b.pythonFile, {"hidden_states"}, {"output"},
              {product("gate_up_proj", "hidden_states", "gate_up"), chunkOfLast("gate_up", 0, 2, "gate"),
               chunkOfLast("gate_up", 1, 2, "up"), callModule("act_fn", {"gate"}, {"activated"}),
               op(OpKind::Multiply, {"up", "activated"}, {"inner"}, "up * act_fn(gate)"),
               product("down_proj", "inner", "output")},
              false});
    b.gatedMlp(block, "shared_expert", hidden, facts.inner, false, facts.activation, "activation_fn");
    Operation add;
    add.kind = OpKind::Add;
    add.in = {"shared", "routed"};
    add.out = {"both"};
    add.attributes = {{"in_place", true}};
    b.define({b.prefix + "Moe.forward", "forward@" + b.pythonFile, {"hidden_states"}, {"output"},
              {op(OpKind::FlattenTokens, {"hidden_states"}, {"flat"}, "reshape(-1, hidden_dim)"),
               callModule("router", {"flat"}, {"scores"}),
               op(OpKind::SpreadTokens, {"flat", "scores"}, {"routed_in"}, "repeat * scores"),
               callModule("experts", {"routed_in"}, {"routed_out"}), callModule("shared_expert", {"flat"}, {"shared"}),
               op(OpKind::SumExperts, {"routed_out"}, {"routed"}, "sum of the experts"),
               op(std::move(add), "shared expert + experts"),
               op(OpKind::BatchTokens, {"both", "hidden_states"}, {"output"}, "view")},
              false});
}

} // namespace

Result<ModelDescription> describeLlama4Text(const ModelConfig &config, const Upstream &upstream) {
    DecoderFacts facts;
    facts.prefix = "Llama4Text";
    facts.pythonFile = "modeling_llama4.py";
    ConfigReads reads(config);
    Attention attention;
    facts.attentionBias = facts.outputBias = reads.flag("attention_bias", false);
    attention.eps = reads.real("rms_norm_eps", 1e-5);
    attention.norms = reads.flag("use_qk_norm", true);
    attention.scales = reads.flag("attn_temperature_tuning", true);
    readLayers(config, reads, facts);
    Experts experts;
    experts.count = reads.count("num_local_experts", 16);
    experts.chosen = reads.count("num_experts_per_tok", 1);
    experts.inner = reads.count("intermediate_size", 8192);
    experts.activation = reads.text("hidden_act", "silu");
    const std::int64_t dense = reads.count("intermediate_size_mlp", 16384);
    const std::int64_t step = reads.count("interleave_moe_layer_step", 1);
    const auto sparse = reads.integers("moe_layers");
    if (reads.failed())
        return reads.error();
    facts.causalClass = "Llama4ForCausalLM";
    facts.basePrefix = {}; // its base_model_prefix names no module of it
    facts.mlpName = "feed_forward";
    facts.masksInLoop = facts.interleave = true;
    facts.defaultHeadDim = 128;
    facts.ropeTheta = 5e5;
    facts.normEps = 1e-5;
    facts.causalLmDeprecateKwarg = blocks::DecoratorPlace::Innermost;
    const DecoderFacts own = facts;
    facts.addAttention = [own, attention](Builder &b, ModuleIndex layer, std::int64_t index) {
        addAttention(b, layer, index, own, attention);
    };
    facts.addMlp = [=](Builder &b, ModuleIndex layer, std::int64_t index) {
        const bool moe = sparse ? std::ranges::find(*sparse, index) != sparse->end() : (index + 1) % step == 0;
        if (moe)
            addExperts(b, layer, experts);
        else
            b.gatedMlp(layer, "feed_forward", b.model.dims.hidden, dense, false, experts.activation, "activation_fn");
        return true;
    };
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
