// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/modeldescription.h"
#include "model/modelsource.h"
#include "model/safetensors.h"

namespace tpscope {

// Half-open ranges of indices along one dimension, in the order they are wanted.
using IndexRanges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// The one place that gives parameter data to a rank: from the model's checkpoint, or, for a config
// alone, random by seed and the same whatever slices are asked for. Every parameter of the
// description is checked at open, without reading data; a slice then touches and copies its own
// bytes only. Movable; reading is thread-safe. A tied parameter (Tie) is one tensor: the one the
// checkpoint holds, or the source's random values. Floating-point tensors of another dtype than the
// parameter's are rounded to it, as from_pretrained does.
class WeightSource {
public:
    // Errors: those of Checkpoint::open; BadInput naming tensor, expected and found: missing, other
    // shape, a dtype that cannot be converted; Unsupported: weights of a format that is not read,
    // random values of a dtype that is no float.
    static Result<WeightSource> open(const ModelSource &source, const ModelDescription &model,
                                     std::uint64_t seed);

    bool isRandom() const { return !m_checkpoint; }

    // Bytes of a slice in the parameter's dtype; dim -1: the whole parameter, ranges are ignored.
    // Errors: Usage: no such parameter or dimension, ranges outside the shape.
    Result<std::size_t> sliceBytes(const std::string &parameter, int dim,
                                   const IndexRanges &ranges) const;

    // The ranges of dimension dim, one behind the other, as a row-major tensor in the parameter's
    // dtype; out must have exactly sliceBytes(). parameter: full name ("model.norm.weight").
    // Errors: as sliceBytes(); Usage: out has another size; RunFailed: the file changed since it
    // was opened.
    Result<void> readSlice(const std::string &parameter, int dim, const IndexRanges &ranges,
                           std::span<std::byte> out) const;
    Result<std::vector<std::byte>> readSlice(const std::string &parameter, int dim,
                                             const IndexRanges &ranges) const;

    // Bytes copied out of the checkpoint's files so far, by all slices; 0 for random weights.
    std::uint64_t bytesCopied() const { return m_bytesCopied->load(); }

private:
    // Where a parameter's values come from.
    struct Origin {
        Shape shape;
        DType dtype = DType::F32; // wanted
        std::string tensor;       // its name in the checkpoint, or the key of its random values
        const TensorEntry *entry = nullptr; // random: nullptr
        const SafetensorsFile *file = nullptr;
        double mean = 0.0;
        double std = 0.0;
        // Of a parameter whose checkpoint has a tensor for each index of dimension 0 and each part of dimension 1: by
        // index, then part. Then entry is nullptr.
        std::vector<Origin> parts = {};
    };

    WeightSource() = default;
    Result<void> addParameters(const ModelDescription &model);
    Result<void> findStored(const ModelDescription &model, const std::string &name,
                            Origin &origin) const;
    Result<void> findRandom(const ModelDescription &model, const std::string &name,
                            Origin &origin) const;
    Result<bool> findParts(const ModelDescription &model, const Parameter &parameter, Origin &origin) const;
    Result<void> checkStored(const Origin &origin) const;
    void copy(const Origin &origin, std::uint64_t first, std::uint64_t count, std::byte *out) const;

    std::shared_ptr<const Checkpoint> m_checkpoint; // nullptr: random weights
    std::uint64_t m_seed = 0;
    std::unordered_map<std::string, Origin> m_origins; // by full parameter name
    std::unique_ptr<std::atomic<std::uint64_t>> m_bytesCopied =
        std::make_unique<std::atomic<std::uint64_t>>(0);
};

} // namespace tpscope
