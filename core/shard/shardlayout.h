// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "plan/resolvedplan.h"

// The only place with sharding arithmetic.
namespace tpscope {

// Half-open range of indices.
struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
    bool operator==(const Interval &) const = default;
};

// torch.chunk: chunk = ceil(n/p); rank r holds [r*chunk, min((r+1)*chunk, n)), the last ranks may be short or empty.
Interval chunkOf(std::int64_t n, int p, Rank rank);
// What one rank holds of a dimension of n, in `groups` interleaved groups each chunked by itself (packed weights).
std::vector<Interval> heldIntervals(std::int64_t n, int p, Rank rank, int groups);

enum class PlacementKind { PlainTensor, Replicate, Shard, StridedShard };
std::string_view name(PlacementKind kind); // "plain_tensor", "replicate", "shard", "strided_shard"

struct Placement {
    PlacementKind kind = PlacementKind::PlainTensor;
    int dim = 0;         // as upstream prints it: 0.. or -1
    int splitFactor = 1; // strided
    bool operator==(const Placement &) const = default;
};

// One parameter on every rank.
struct ParameterShard {
    std::string name;
    std::string rule;  // key of the rule, "" none
    std::string style; // "" none
    Placement placement;
    DType dtype = DType::F32;
    Shape globalShape;
    std::vector<Shape> localShapes;       // by rank
    std::vector<std::int64_t> bytes;      // by rank
    int dim = -1;                         // sharded dimension, normalised; -1 whole
    std::vector<std::vector<Interval>> held; // by rank, along dim; empty when whole
};

struct ShardLayout {
    int tp = 1;
    std::vector<ParameterShard> parameters;  // named_parameters() order; tied targets are not listed
    std::vector<std::int64_t> bytesPerRank;
    std::int64_t totalBytes = 0;             // of the whole model, once
    std::int64_t shardedBytes = 0;           // bytes of parameters that are really split
    double shardedFraction() const { return totalBytes ? double(shardedBytes) / double(totalBytes) : 0.0; }
    const ParameterShard *find(std::string_view name) const;
};

// The placement a style gives a parameter of this shape and local name. parameterOfModuleRule tells nothing more:
// the style alone decides. nullptr style: plain tensor.
Placement placementOf(const ParallelStyle *style, const std::string &parameterName, const Shape &shape);

// In how many interleaved groups the ranks' shards are cut. Those of the placement, unless a checkpoint stores the
// parameter in parts: loading cuts each part plainly, so parts that lie behind one another along the cut dimension are
// groups whatever the style says. Source: transformers 5.24 core_model_loading.py.
int groupsHeld(const Parameter &parameter, const Placement &placement);
ShardLayout shardLayout(const ModelDescription &model, const ResolvedPlan &plan);

} // namespace tpscope
