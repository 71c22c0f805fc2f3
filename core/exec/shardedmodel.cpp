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

// The memory of matrices that lie behind one another, as a tensor each.
std::unordered_map<std::string, at::Tensor> stack(const ShardLayout &layout, std::size_t rank,
                                                  const std::vector<std::vector<std::string>> &together) {
    std::unordered_map<std::string, at::Tensor> out;
    for (const auto &group : together) {
        std::int64_t rows = 0;
        for (const std::string &name : group)
            rows += layout.find(name)->localShapes[rank][0];
        const ParameterShard &first = *layout.find(group.front());
        const at::Tensor all = at::empty({rows, first.localShapes[rank][1]}, at::dtype(*scalarType(first.dtype)));
        std::int64_t begin = 0;
        for (const std::string &name : group) {
            const std::int64_t own = layout.find(name)->localShapes[rank][0];
            out.emplace(name, all.narrow(0, begin, own).detach());
            begin += own;
        }
    }
    return out;
}

} // namespace

Result<ShardedModel> ShardedModel::load(const ModelDescription &model, const ShardLayout &layout, Rank rank,
                                        const WeightSource &source,
                                        const std::vector<std::vector<std::string>> &together,
                                        const std::function<void(const std::string &)> &onTensor) {
    ShardedModel loaded;
    const auto index = static_cast<std::size_t>(rank.value);
    for (const ParameterShard &shard : layout.parameters)
        if (!scalarType(shard.dtype))
            return fail(ErrorCode::Unsupported, "parameter " + shard.name + " is " +
                                                    std::string(torchName(shard.dtype)) +
                                                    ", which cannot be computed in");
    const auto stacked = stack(layout, index, together);
    for (const ParameterShard &shard : layout.parameters) {
        onTensor(shard.name);
        const auto place = stacked.find(shard.name);
        LocalParameter local{shard.name,
                             place != stacked.end() ? place->second
                                                    : at::empty(shard.localShapes[index],
                                                                at::dtype(*scalarType(shard.dtype))),
                             shard.dim, {}, shard.placement.kind != PlacementKind::PlainTensor};
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
    for (const Module &module : model.tree.modules)
        for (const Parameter &buffer : module.buffers) {
            const std::string name = module.name + "." + buffer.name;
            const auto type = scalarType(buffer.dtype);
            if (!type)
                return fail(ErrorCode::Unsupported, "buffer " + name + " is " + std::string(torchName(buffer.dtype)) +
                                                        ", which cannot be computed in");
            LocalParameter local{name, at::empty(buffer.shape, at::dtype(*type)), -1, {}, false};
            if (const auto read = source.readSlice(name, -1, {}, {static_cast<std::byte *>(local.tensor.data_ptr()),
                                                                  static_cast<std::size_t>(local.tensor.nbytes())});
                !read)
                return tl::unexpected(read.error());
            loaded.m_buffers.emplace(name, std::move(local));
        }
    for (const Tie &tie : model.tree.ties)
        if (const auto found = loaded.m_byName.find(tie.source); found != loaded.m_byName.end())
            loaded.m_byName.emplace(tie.target, found->second);
    return loaded;
}

const LocalParameter *ShardedModel::find(const std::string &fullName) const {
    const auto found = m_byName.find(fullName);
    if (found != m_byName.end())
        return &m_parameters[found->second];
    const auto buffer = m_buffers.find(fullName);
    return buffer == m_buffers.end() ? nullptr : &buffer->second;
}

} // namespace tpscope
