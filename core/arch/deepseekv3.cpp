// SPDX-License-Identifier: GPL-3.0-or-later
// DeepseekV3ForCausalLM, transformers 5.24 models/deepseek_v3/modeling_deepseek_v3.py: multi-head latent attention, whose
// cache holds the compressed latents, and experts chosen within groups, beside shared ones.
#include "arch/deepseekv3.h"

#include <cmath>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

using namespace blocks;

// Widths of the latent attention.
struct Latent {
    std::int64_t queryRank = 0; // 0: one q_proj
    std::int64_t keyRank = 0;
    std::int64_t rope = 0;
    std::int64_t nope = 0;
    std::int64_t value = 0;
    bool interleave = true;
    bool bias = false;
    double scaling = 1.0;
    std::int64_t query() const { return nope + rope; }
};

Statement slice(const Var &in, std::int64_t begin, std::int64_t end, const Var &out) {
    Operation operation;
    operation.kind = OpKind::Slice;
    operation.in = {in};
    operation.out = {out};
    operation.attributes = {{"begin", begin}, {"end", end}};
    return op(std::move(operation), "split");
}

Statement heads(const Var &in, std::int64_t headDim, const Var &out) {
    Operation operation;
    operation.kind = OpKind::ViewHeads;
    operation.in = {in};
    operation.out = {out};
    operation.attributes = {{"head_dim", headDim}};
    return op(std::move(operation), "view");
}

// Queries [B, heads, T, nope + rope], not rotated yet.
void project(Body &body, const Latent &l) {
    if (l.queryRank > 0) {
        body.push_back(callModule("q_a_proj", {"hidden_states"}, {"q_a"}));
        body.push_back(callModule("q_a_layernorm", {"q_a"}, {"q_a_normed"}));
        body.push_back(callModule("q_b_proj", {"q_a_normed"}, {"q_states"}));
    } else {
        body.push_back(callModule("q_proj", {"hidden_states"}, {"q_states"}));
    }
    body.push_back(heads("q_states", l.query(), "q_view"));
    body.push_back(op(OpKind::Transpose, {"q_view"}, {"q_heads"}, "transpose(1, 2)"));
    body.push_back(slice("q_heads", 0, l.nope, "q_pass"));
    body.push_back(slice("q_heads", l.nope, l.query(), "q_rot"));
    body.push_back(callModule("kv_a_proj_with_mqa", {"hidden_states"}, {"compressed_kv"}));
    body.push_back(slice("compressed_kv", 0, l.keyRank, "latent"));
    body.push_back(slice("compressed_kv", l.keyRank, l.keyRank + l.rope, "k_rot_flat"));
    body.push_back(callModule("kv_a_layernorm", {"latent"}, {"latent_normed"}));
    body.push_back(op(OpKind::SingleHead, {"latent_normed"}, {"kv_nope"}, "view(batch, 1, seq, rank)"));
    body.push_back(op(OpKind::SingleHead, {"k_rot_flat"}, {"k_rot"}, "view(batch, 1, seq, rope)"));
}

// The latents of the cache become keys and values of every head.
void expand(Body &body, const Latent &l) {
    body.push_back(op(OpKind::DropHead, {"cached_nope"}, {"latents"}, {}));
    body.push_back(callModule("kv_b_proj", {"latents"}, {"kv"}));
    body.push_back(heads("kv", l.nope + l.value, "kv_view"));
    body.push_back(op(OpKind::Transpose, {"kv_view"}, {"kv_heads"}, "transpose(1, 2)"));
    body.push_back(slice("kv_heads", 0, l.nope, "k_nope"));
    body.push_back(slice("kv_heads", l.nope, l.nope + l.value, "values"));
    body.push_back(op(OpKind::CatHeads, {"k_nope", "cached_rot"}, {"keys"}, "cat(k_nope, k_rot)"));
}

ForwardProgram attentionProgram(const Builder &b, const Latent &l) {
    ForwardProgram program;
    program.id = b.prefix + "Attention.forward";
    program.frame = "forward@" + b.pythonFile;
    program.inputs = {"hidden_states", "cos", "sin", "attention_mask", "cache"};
    program.outputs = {"attn_output"};
    Body &body = program.body;
    project(body, l);
    Operation rope;
    rope.kind = OpKind::Rope;
    rope.in = {"q_rot", "k_rot", "cos", "sin"};
    rope.out = {"q_rotated", "k_rotated"};
    if (l.interleave)
        rope.attributes = {{"interleave", true}};
    body.push_back(op(std::move(rope), "apply_rotary_pos_emb"));
    body.push_back(cacheUpdate("kv_nope", "k_rotated", {"cached_nope", "cached_rot"}, "cache.update"));
    body.push_back(op(OpKind::CatHeads, {"q_pass", "q_rotated"}, {"queries"}, "cat(q_pass, q_rot)"));
    expand(body, l);
    body.push_back(op(OpKind::Attend, {"queries", "keys", "values", "attention_mask"}, {"attended"}, "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(callModule("o_proj", {"merged"}, {"attn_output"}));
    return program;
}

void addLatentAttention(Builder &b, ModuleIndex layer, std::int64_t index, const Latent &l) {
    constexpr double eps = 1e-6; // of the latents' norms, whatever the config says
    const ModelDimensions &d = b.model.dims;
    b.define(attentionProgram(b, l));
    const ModuleIndex attention = b.model.tree.add(layer, "self_attn", b.prefix + "Attention");
    Module &module = b.at(attention);
    module.calledWithKeywords = module.returnsTuple = true;
    module.forwardProgram = b.attentionForward(b.prefix + "Attention.forward");
    module.attributes = {{"layer_idx", index},
                         {"head_dim", l.query()},
                         {"num_attention_heads", d.heads},
                         {"num_key_value_heads", d.kvHeads},
                         {"num_key_value_groups", d.heads / d.kvHeads},
                         {"scaling", l.scaling},
                         {"layer_type", std::string("full_attention")},
                         {"sliding_window", std::int64_t{0}}};
    if (l.queryRank > 0) {
        b.linear(attention, "q_a_proj", d.hidden, l.queryRank, l.bias);
        b.rmsNorm(attention, "q_a_layernorm", l.queryRank, eps);
        b.linear(attention, "q_b_proj", l.queryRank, d.heads * l.query(), false);
    } else {
        b.linear(attention, "q_proj", d.hidden, d.heads * l.query(), false);
    }
    b.linear(attention, "kv_a_proj_with_mqa", d.hidden, l.keyRank + l.rope, l.bias);
    b.rmsNorm(attention, "kv_a_layernorm", l.keyRank, eps);
    b.linear(attention, "kv_b_proj", l.keyRank, d.heads * (l.nope + l.value), false);
    b.linear(attention, "o_proj", d.heads * l.value, d.hidden, l.bias);
}

Result<Latent> readLatent(const ModelConfig &config) {
    Latent l;
    const std::pair<const char *, std::pair<std::int64_t *, std::int64_t>> numbers[] = {
        {"kv_lora_rank", {&l.keyRank, 512}}, {"qk_rope_head_dim", {&l.rope, 64}},
        {"qk_nope_head_dim", {&l.nope, 128}}, {"v_head_dim", {&l.value, 128}}};
    for (const auto &[key, target] : numbers) {
        const auto read = readCount(config, {key}, target.second);
        if (!read)
            return tl::unexpected(read.error());
        *target.first = *read;
    }
    const auto rank = config.integer("q_lora_rank", 0);
    const auto interleave = config.flag("rope_interleave", true);
    const auto bias = config.flag("attention_bias", false);
    const auto rope = config.rope();
    if (!rank || !interleave || !bias || !rope)
        return tl::unexpected(!rank ? rank.error() : !interleave ? interleave.error() : !bias ? bias.error() : rope.error());
    l.queryRank = *rank;
    l.interleave = *interleave;
    l.bias = *bias;
    l.scaling = 1.0 / std::sqrt(static_cast<double>(l.query()));
    // yarn_apply_mscale
    const double all = rope->type == "default" ? 0.0 : rope->number("mscale_all_dim", 0.0);
    const double factor = rope->number("factor", 1.0);
    if (all != 0.0 && factor > 1.0)
        l.scaling *= std::pow(0.1 * all * std::log(factor) + 1.0, 2.0);
    return l;
}

Result<MoeFacts> readExperts(const ModelConfig &config) {
    MoeFacts moe;
    const auto experts = readCount(config, {"n_routed_experts", "num_local_experts"}, 256);
    const auto chosen = readCount(config, {"num_experts_per_tok"}, 8);
    const auto inner = readCount(config, {"moe_intermediate_size"}, 2048);
    const auto shared = readCount(config, {"n_shared_experts"}, 1);
    const auto groups = readCount(config, {"n_group"}, 8);
    const auto chosenGroups = readCount(config, {"topk_group"}, 4);
    for (const auto *number : {&experts, &chosen, &inner, &shared, &groups, &chosenGroups})
        if (!*number)
            return tl::unexpected(number->error());
    const auto sums = config.flag("norm_topk_prob", true);
    const auto scaling = config.real("routed_scaling_factor", 2.5);
    const auto activation = config.text("hidden_act", "silu");
    if (!sums || !scaling || !activation)
        return tl::unexpected(!sums ? sums.error() : !scaling ? scaling.error() : activation.error());
    moe.experts = *experts;
    moe.chosen = *chosen;
    moe.inner = *inner;
    moe.shared = *inner * *shared;
    moe.groups = *groups;
    moe.chosenGroups = *chosenGroups;
    moe.sumsToOne = *sums;
    moe.scaling = *scaling;
    moe.activation = *activation;
    moe.blockClass = "DeepseekV3MoE";
    moe.routerClass = "DeepseekV3TopkRouter";
    moe.expertsClass = "DeepseekV3Experts";
    moe.storedRouter = "mlp.gate.weight";
    moe.storedGate = "mlp.experts.{}.gate_proj.weight";
    moe.storedUp = "mlp.experts.{}.up_proj.weight";
    moe.storedDown = "mlp.experts.{}.down_proj.weight";
    return moe;
}

} // namespace

Result<ModelDescription> describeDeepseekV3(const ModelConfig &config, const Upstream &upstream) {
    DecoderFacts facts;
    facts.prefix = "DeepseekV3";
    facts.pythonFile = "modeling_deepseek_v3.py";
    const auto latent = readLatent(config);
    if (!latent)
        return tl::unexpected(latent.error());
    const auto moe = readExperts(config);
    if (!moe)
        return tl::unexpected(moe.error());
    const auto dense = config.integer("first_k_dense_replace", 3);
    if (!dense)
        return tl::unexpected(dense.error());
    facts.headDim = latent->rope;
    facts.addAttention = [l = *latent](Builder &b, ModuleIndex layer, std::int64_t index) {
        addLatentAttention(b, layer, index, l);
    };
    facts.addMlp = [m = *moe, first = *dense](Builder &b, ModuleIndex layer, std::int64_t index) {
        if (index < first)
            return false;
        addSparseMoe(b, layer, "mlp", m);
        return true;
    };
    facts.causalLmDeprecateKwarg = DecoratorPlace::Innermost;
    return describeDecoder(config, upstream, facts);
}

} // namespace tpscope
