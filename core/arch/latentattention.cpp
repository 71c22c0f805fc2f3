// SPDX-License-Identifier: GPL-3.0-or-later
// Source: transformers 5.24 models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3Attention.
#include "arch/latentattention.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tpscope::blocks {
namespace {

// Queries [B, heads, T, nope + rope], not rotated yet.
void project(Body &body, const LatentAttention &l) {
    if (l.queryRank > 0) {
        body.push_back(callModule("q_a_proj", {"hidden_states"}, {"q_a"}));
        body.push_back(callModule("q_a_layernorm", {"q_a"}, {"q_a_normed"}));
        body.push_back(callModule("q_b_proj", {"q_a_normed"}, {"q_states"}));
    } else {
        body.push_back(callModule("q_proj", {"hidden_states"}, {"q_states"}));
    }
    body.push_back(viewHeads("q_states", l.query(), "q_view"));
    body.push_back(op(OpKind::Transpose, {"q_view"}, {"q_heads"}, "transpose(1, 2)"));
    body.push_back(sliceOfLast("q_heads", 0, l.nope, "q_pass"));
    body.push_back(sliceOfLast("q_heads", l.nope, l.query(), "q_rot"));
    body.push_back(callModule("kv_a_proj_with_mqa", {"hidden_states"}, {"compressed_kv"}));
    body.push_back(sliceOfLast("compressed_kv", 0, l.keyRank, "latent"));
    body.push_back(sliceOfLast("compressed_kv", l.keyRank, l.keyRank + l.rope, "k_rot_flat"));
    body.push_back(callModule("kv_a_layernorm", {"latent"}, {"latent_normed"}));
    body.push_back(op(OpKind::SingleHead, {"latent_normed"}, {"kv_nope"}, "view(batch, 1, seq, rank)"));
    body.push_back(op(OpKind::SingleHead, {"k_rot_flat"}, {"k_rot"}, "view(batch, 1, seq, rope)"));
}

// The latents of the cache become keys and values of every head.
void expand(Body &body, const LatentAttention &l) {
    body.push_back(op(OpKind::DropHead, {"cached_nope"}, {"latents"}, {}));
    body.push_back(callModule("kv_b_proj", {"latents"}, {"kv"}));
    body.push_back(viewHeads("kv", l.nope + l.value, "kv_view"));
    body.push_back(op(OpKind::Transpose, {"kv_view"}, {"kv_heads"}, "transpose(1, 2)"));
    body.push_back(sliceOfLast("kv_heads", 0, l.nope, "k_nope"));
    body.push_back(sliceOfLast("kv_heads", l.nope, l.nope + l.value, "values"));
    body.push_back(op(OpKind::CatHeads, {"k_nope", "cached_rot"}, {"keys"}, "cat(k_nope, k_rot)"));
}

ForwardProgram attentionProgram(const Builder &b, const LatentAttention &l) {
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
    if (l.positionScale)
        body.push_back(op(OpKind::PositionScale, {"queries"}, {"scaled_queries"}, "* get_llama_4_attn_scale(position_ids)"));
    expand(body, l);
    body.push_back(op(OpKind::Attend, {l.positionScale ? "scaled_queries" : "queries", "keys", "values", "attention_mask"},
                      {"attended"}, "attention"));
    body.push_back(op(OpKind::MergeHeads, {"attended"}, {"merged"}, "reshape"));
    body.push_back(callModule("o_proj", {"merged"}, {"attn_output"}));
    return program;
}

} // namespace

void addLatentAttention(Builder &b, ModuleIndex layer, std::int64_t index, const LatentAttention &l) {
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

LatentAttention readLatentAttention(const ModelConfig &config, ConfigReads &reads, const LatentWidths &defaults) {
    LatentAttention l;
    l.keyRank = reads.count("kv_lora_rank", defaults.keyRank);
    l.rope = reads.count("qk_rope_head_dim", defaults.rope);
    l.nope = reads.count("qk_nope_head_dim", defaults.nope);
    l.value = reads.count("v_head_dim", defaults.value);
    const bool whole = config.json().contains("q_lora_rank") && !config.has("q_lora_rank"); // null: one q_proj
    l.queryRank = whole ? 0 : reads.integer("q_lora_rank", defaults.queryRank);
    l.interleave = reads.flag("rope_interleave", true);
    l.bias = reads.flag("attention_bias", false);
    l.scaling = 1.0 / std::sqrt(static_cast<double>(l.query()));
    const auto rope = config.rope();
    if (!rope) {
        reads.expect(tl::unexpected(rope.error()));
        return l;
    }
    // yarn_apply_mscale
    const double all = rope->type == "default" ? 0.0 : rope->number("mscale_all_dim", 0.0);
    const double factor = rope->number("factor", 1.0);
    if (all != 0.0 && factor > 1.0)
        l.scaling *= std::pow(0.1 * all * std::log(factor) + 1.0, 2.0);
    return l;
}

void useLatentMoe(DecoderFacts &facts, const LatentAttention &latent, const MoeFacts &moe, std::int64_t dense) {
    facts.headDim = latent.rope;
    facts.addAttention = [latent](Builder &b, ModuleIndex layer, std::int64_t index) {
        addLatentAttention(b, layer, index, latent);
    };
    facts.addMlp = [moe, dense](Builder &b, ModuleIndex layer, std::int64_t index) {
        if (index < dense)
            return false;
        addSparseMoe(b, layer, "mlp", moe);
        return true;
    };
    facts.causalLmDeprecateKwarg = DecoratorPlace::Innermost;
}

} // namespace tpscope::blocks
