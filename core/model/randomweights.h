// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string_view>

namespace tpscope {

// Counter-based generator (Philox 4x32-10) keyed by seed and tensor name: element i of a tensor has one value, whatever
// rank makes it and in whatever order, so that every tp size sees the same model.
class RandomTensor {
public:
    RandomTensor(std::uint64_t seed, std::string_view tensorName, double mean, double standardDeviation);
    float at(std::uint64_t element) const; // normal(mean, std); row-major index in the global tensor
    // out[0..count) = elements first .. first+count-1. Thread-safe.
    void fill(std::uint64_t first, std::uint64_t count, float *out) const;

private:
    std::uint32_t m_key[2];
    float m_mean;
    float m_std;
};

} // namespace tpscope
