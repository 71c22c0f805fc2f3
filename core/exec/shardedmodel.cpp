// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/shardedmodel.h"

#include <ATen/ATen.h>

#include <optional>

namespace tpscope {
namespace {

std::optional<at::ScalarType> scalarType(DType dtype) {
    switch (dtype) {
    case DType::F64: return at::kDouble;
    case DType::F32: return at::kFloat;
    case DType::F16: return at::kHalf;
    case DType::BF16: return at::kBFloat16;
    default: return std::nullopt;
    }
}

} // namespace

Result<ShardedModel> ShardedModel::load(const ModelDescription &model, const ShardLayout &layout, Rank rank,
                                        const WeightSource &source,
                                        const std::function<void(const std::string &)> &onTensor) {
    ShardedModel loaded;
    const auto index = static_cast<std::size_t>(rank.value);
    for (const ParameterShard &shard : layout.parameters) {
        onTensor(shard.name);
        const auto type = scalarType(shard.dtype);
        if (!type)
            return fail(ErrorCode::Unsupported, "parameter " + shard.name + " is " +
                                                    std::string(torchName(shard.dtype)) +
                                                    ", which cannot be computed in");
        LocalParameter local{shard.name, at::empty(shard.localShapes[index], at::dtype(*type)), shard.dim, {},
                             shard.placement.kind != PlacementKind::PlainTensor};
        IndexRanges ranges;
        if (shard.dim >= 0) {
            local.held = shard.held[index];
            for (const Interval &interval : local.held)
                ranges.emplace_back(interval.begin, interval.end);
        }
        const auto bytes = static_cast<std::size_t>(local.tensor.nbytes());
        loaded.m_bytes += static_cast<std::int64_t>(bytes);
        if (const auto read = source.readSlice(shard.name, shard.dim, ranges,
                                               {static_cast<std::byte *>(local.tensor.data_ptr()), bytes});
            !read)
            return tl::unexpected(read.error());
        local.tensor.requires_grad_(true);
        loaded.m_byName.emplace(shard.name, loaded.m_parameters.size());
        loaded.m_parameters.push_back(std::move(local));
    }
    for (const Tie &tie : model.tree.ties)
        if (const auto found = loaded.m_byName.find(tie.source); found != loaded.m_byName.end())
            loaded.m_byName.emplace(tie.target, found->second);
    return loaded;
}

const LocalParameter *ShardedModel::find(const std::string &fullName) const {
    const auto found = m_byName.find(fullName);
    return found == m_byName.end() ? nullptr : &m_parameters[found->second];
}

} // namespace tpscope
