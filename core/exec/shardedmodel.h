// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/modeldescription.h"
#include "model/weightsource.h"
#include "shard/shardlayout.h"

namespace tpscope {

// One parameter as one rank holds it. A leaf that requires a gradient, as nn.Parameter is.
struct LocalParameter {
    std::string name;
    at::Tensor tensor;              // local shape
    int dim = -1;                   // sharded dimension; -1 whole
    std::vector<Interval> held;     // of dim
    bool isDTensor = false;         // upstream holds it as a DTensor, sharded or replicated
};

// The parameters of one rank. A tied parameter is one tensor under the name of its source.
class ShardedModel {
public:
    // Copies this rank's shards, and nothing else, out of the source. onTensor is called before each, with its name.
    // together: groups of matrices that shall lie behind one another in memory (equal local columns, one dtype).
    // Errors: those of WeightSource::readSlice, Unsupported for a dtype LibTorch cannot compute in.
    static Result<ShardedModel> load(const ModelDescription &model, const ShardLayout &layout, Rank rank,
                                     const WeightSource &source,
                                     const std::vector<std::vector<std::string>> &together,
                                     const std::function<void(const std::string &)> &onTensor);

    const std::vector<LocalParameter> &parameters() const { return m_parameters; }
    const LocalParameter *find(const std::string &fullName) const; // tied names and buffers too; nullptr: none
    std::int64_t bytes() const { return m_bytes; }                 // of the local tensors

private:
    std::vector<LocalParameter> m_parameters;
    std::unordered_map<std::string, LocalParameter> m_buffers; // whole, no gradient
    std::unordered_map<std::string, std::size_t> m_byName;
    std::int64_t m_bytes = 0;
};

} // namespace tpscope
