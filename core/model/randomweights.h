// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tpscope {

// Counter-based generator (Philox 4x32-10) keyed by seed and tensor name: element i of a tensor has
// one value, whatever rank makes it and in whatever order, so that every tp size sees the same
// model. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011); normals by
// Box and Muller, from polynomials of our own instead of libm, so that machines of a cluster agree
// to the last bit.
class RandomTensor {
public:
    RandomTensor(std::uint64_t seed, std::string_view tensorName, double mean,
                 double standardDeviation);
    // normal(mean, std); row-major index in the global tensor.
    float at(std::uint64_t element) const;
    // out[0..count) = elements first .. first+count-1. Thread-safe.
    void fill(std::uint64_t first, std::uint64_t count, float *out) const;

private:
    std::array<std::uint32_t, 2> m_key;
    float m_mean;
    float m_std;
};

// One block of the generator.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

} // namespace tpscope
