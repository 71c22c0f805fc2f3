// SPDX-License-Identifier: GPL-3.0-or-later
#include "shard/shardlayout.h"

#include <algorithm>
#include <unordered_set>

namespace tpscope {
namespace {

// The dimension a style cuts in a parameter of this many dimensions, normalised; nothing: it stays whole.
std::optional<int> cutDimension(const ParallelStyle &style, const std::string &parameterName, int dims) {
    if (style.weightAxis == ParallelStyle::WeightAxis::None || dims == 0)
        return std::nullopt;
    if (dims == 1) {
        const bool whole = style.oneDim == ParallelStyle::OneDim::Whole ||
                           (style.oneDim == ParallelStyle::OneDim::BiasWhole && parameterName == "bias");
        return whole ? std::nullopt : std::optional<int>(0);
    }
    switch (style.weightAxis) {
    case ParallelStyle::WeightAxis::Rows: return dims - 2;
    case ParallelStyle::WeightAxis::Last: return dims - 1;
    case ParallelStyle::WeightAxis::First: return 0;
    case ParallelStyle::WeightAxis::Second: return 1;
    case ParallelStyle::WeightAxis::None: break;
    }
    return std::nullopt;
}

void placeOnRanks(ParameterShard &shard, int tp, int groups) {
    const std::int64_t elements = elementCount(shard.globalShape);
    const auto size = static_cast<std::int64_t>(elementSize(shard.dtype));
    for (int r = 0; r < tp; ++r) {
        Shape local = shard.globalShape;
        if (shard.dim >= 0) {
            auto held = heldIntervals(local[static_cast<std::size_t>(shard.dim)], tp, Rank(r), groups);
            std::int64_t count = 0;
            for (const Interval &interval : held)
                count += interval.size();
            local[static_cast<std::size_t>(shard.dim)] = count;
            shard.held.push_back(std::move(held));
        }
        shard.bytes.push_back((shard.dim >= 0 ? elementCount(local) : elements) * size);
        shard.localShapes.push_back(std::move(local));
    }
}

} // namespace

Interval chunkOf(std::int64_t n, int p, Rank rank) {
    const std::int64_t chunk = (n + p - 1) / p;
    const std::int64_t begin = std::min(n, chunk * rank.value);
    return {begin, std::min(n, begin + chunk)};
}

std::vector<Interval> heldIntervals(std::int64_t n, int p, Rank rank, int groups) {
    std::vector<Interval> held;
    for (int g = 0; g < groups; ++g) {
        const Interval group = chunkOf(n, groups, Rank(g));
        const Interval own = chunkOf(group.size(), p, rank);
        if (own.size() == 0)
            continue;
        const Interval global{group.begin + own.begin, group.begin + own.end};
        if (!held.empty() && held.back().end == global.begin)
            held.back().end = global.end;
        else
            held.push_back(global);
    }
    return held;
}

std::string_view name(PlacementKind kind) {
    switch (kind) {
    case PlacementKind::PlainTensor: return "plain_tensor";
    case PlacementKind::Replicate: return "replicate";
    case PlacementKind::Shard: return "shard";
    case PlacementKind::StridedShard: return "strided_shard";
    }
    return "plain_tensor";
}

Placement placementOf(const ParallelStyle *style, const std::string &parameterName, const Shape &shape) {
    if (!style || style->weightAxis == ParallelStyle::WeightAxis::None)
        return {};
    const int dims = static_cast<int>(shape.size());
    const auto dim = cutDimension(*style, parameterName, dims);
    if (!dim)
        return {PlacementKind::Replicate, 0, 1};
    // Packed groups lie on matrices; upstream shards a packed style's vectors plainly.
    if (style->groups > 1 && dims > 1)
        return {PlacementKind::StridedShard, *dim, style->groups};
    return {PlacementKind::Shard, *dim, 1};
}

int groupsHeld(const Parameter &parameter, const Placement &placement) {
    constexpr int dimensionOfParts = 1;
    if (!parameter.storedInParts())
        return placement.splitFactor;
    return placement.dim == dimensionOfParts ? static_cast<int>(parameter.storedAs.size()) : 1;
}

const ParameterShard *ShardLayout::find(std::string_view name) const {
    const auto found = std::ranges::find(parameters, name, &ParameterShard::name);
    return found == parameters.end() ? nullptr : &*found;
}

ShardLayout shardLayout(const ModelDescription &model, const ResolvedPlan &plan) {
    ShardLayout layout;
    layout.tp = plan.tp;
    layout.bytesPerRank.assign(static_cast<std::size_t>(plan.tp), 0);
    std::unordered_set<std::string> tied;
    for (const Tie &tie : model.tree.ties)
        tied.insert(tie.target);
    for (const Module &module : model.tree.modules) {
        for (const Parameter &parameter : module.parameters) {
            ParameterShard shard;
            shard.name = module.name.empty() ? parameter.name : module.name + "." + parameter.name;
            if (tied.contains(shard.name))
                continue;
            const EffectiveRule *rule = plan.ruleOfParameter(shard.name);
            if (rule) {
                shard.rule = rule->rule.key;
                shard.style = rule->rule.style;
            }
            // One rank shards nothing: upstream ignores the plan at tp 1.
            const ParallelStyle *style = rule && plan.tp > 1 ? rule->style : nullptr;
            shard.dtype = parameter.dtype;
            shard.globalShape = parameter.shape;
            shard.placement = placementOf(style, parameter.name, parameter.shape);
            const bool cut = shard.placement.kind == PlacementKind::Shard ||
                             shard.placement.kind == PlacementKind::StridedShard;
            shard.dim = cut ? shard.placement.dim : -1;
            placeOnRanks(shard, plan.tp, groupsHeld(parameter, shard.placement));
            const std::int64_t whole = elementCount(parameter.shape) *
                                       static_cast<std::int64_t>(elementSize(parameter.dtype));
            layout.totalBytes += whole;
            if (cut)
                layout.shardedBytes += whole;
            for (std::size_t r = 0; r < layout.bytesPerRank.size(); ++r)
                layout.bytesPerRank[r] += shard.bytes[r];
            layout.parameters.push_back(std::move(shard));
        }
    }
    return layout;
}

} // namespace tpscope
