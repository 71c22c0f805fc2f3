// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/forwardprogram.h"

#include <algorithm>

namespace tpscope {

std::string_view name(OpKind kind) {
    switch (kind) {
    case OpKind::Embedding: return "embedding";
    case OpKind::Linear: return "linear";
    case OpKind::RmsNorm: return "rms_norm";
    case OpKind::Activation: return "activation";
    case OpKind::Multiply: return "multiply";
    case OpKind::Add: return "add";
    case OpKind::ViewHeads: return "view_heads";
    case OpKind::Transpose: return "transpose";
    case OpKind::RopeTable: return "rope_table";
    case OpKind::Rope: return "rope";
    case OpKind::CausalMask: return "causal_mask";
    case OpKind::CacheUpdate: return "cache_update";
    case OpKind::Attend: return "attend";
    case OpKind::MergeHeads: return "merge_heads";
    case OpKind::SliceTokens: return "slice_tokens";
    case OpKind::SingleHead: return "single_head";
    case OpKind::DropHead: return "drop_head";
    case OpKind::CatHeads: return "cat_heads";
    case OpKind::Slice: return "slice";
    case OpKind::Scale: return "scale";
    case OpKind::FlattenTokens: return "flatten_tokens";
    case OpKind::BatchTokens: return "batch_tokens";
    case OpKind::Router: return "router";
    case OpKind::ExpertProduct: return "expert_product";
    case OpKind::InterleavedGlu: return "interleaved_glu";
    case OpKind::CombineExperts: return "combine_experts";
    case OpKind::Select: return "select";
    case OpKind::LayerNorm: return "layer_norm";
    case OpKind::UnitNorm: return "unit_norm";
    case OpKind::Clamp: return "clamp";
    case OpKind::Softcap: return "softcap";
    case OpKind::CappedAttend: return "capped_attend";
    case OpKind::PositionScale: return "position_scale";
    case OpKind::Concat: return "concat";
    case OpKind::Convolve: return "convolve";
    case OpKind::DeltaRule: return "delta_rule";
    case OpKind::GroupRouter: return "group_router";
    case OpKind::SpreadTokens: return "spread_tokens";
    case OpKind::SumExperts: return "sum_experts";
    }
    return "?";
}

std::int64_t integerOf(const Operation &operation, const std::string &key, std::int64_t fallback) {
    const auto found = operation.attributes.find(key);
    const auto *value = found == operation.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return value ? *value : fallback;
}

std::pair<std::int64_t, std::int64_t> slicedPositions(const Operation &operation, std::int64_t width) {
    const auto number = [&](const char *key, std::int64_t fallback) { return integerOf(operation, key, fallback); };
    if (const std::int64_t of = number("of", 0); of > 0) {
        const std::int64_t size = (width + of - 1) / of;
        const std::int64_t begin = std::min(size * number("chunk", 0), width);
        return {begin, std::min(begin + size, width)};
    }
    const std::int64_t begin = std::min(number("begin", 0), width);
    return {begin, std::max(begin, std::min(number("end", width), width))};
}

} // namespace tpscope
