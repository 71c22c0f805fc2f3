// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/randomweights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

// A fused multiply-add rounds once where two operations round twice: without this, a build for a
// processor that has it would make other weights.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace tpscope {
namespace {

// Elements are made in batches of 4 x 64 so that the compiler can use vector instructions. A batch
// is always made whole, so an element's value does not depend on what is asked for around it.
constexpr std::size_t lanes = 64;
constexpr std::size_t batchSize = 4 * lanes;

struct Batch {
    std::uint32_t words[4][lanes];
};

// Multipliers and key increments of Philox 4x32.
constexpr std::uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
constexpr std::uint32_t increment0 = 0x9E3779B9, increment1 = 0xBB67AE85;
constexpr int rounds = 10;

template <std::size_t N> void philox(std::uint32_t (&w)[4][N], std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < N; ++i) {
            const std::uint64_t product0 = std::uint64_t{multiplier0} * w[0][i];
            const std::uint64_t product1 = std::uint64_t{multiplier1} * w[2][i];
            w[0][i] = static_cast<std::uint32_t>(product1 >> 32) ^ w[1][i] ^ key[0];
            w[2][i] = static_cast<std::uint32_t>(product0 >> 32) ^ w[3][i] ^ key[1];
            w[1][i] = static_cast<std::uint32_t>(product1);
            w[3][i] = static_cast<std::uint32_t>(product0);
        }
        key[0] += increment0;
        key[1] += increment1;
    }
}

// Natural logarithm of (k + 1/2) / 2^23 for k < 2^23, about 1e-7 relative. Polynomial of the Cephes
// library (logf).
float logOfUniform(std::uint32_t k) {
    const float u = (static_cast<float>(static_cast<std::int32_t>(k)) + 0.5f) * 0x1p-23f;
    const auto bits = std::bit_cast<std::uint32_t>(u);
    // u = m 2^e with m from sqrt(1/2) to sqrt(2); 0x3F3504F3 is sqrt(1/2).
    const std::int32_t e = static_cast<std::int32_t>(bits - 0x3F3504F3) >> 23;
    const float exponent = static_cast<float>(e);
    const float x = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e) << 23)) - 1.0f;
    const float z = x * x;
    float y = 7.0376836292e-2f;
    y = y * x - 1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x - 1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x - 1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x - 2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    y = y * x * z - 2.12194440e-4f * exponent - 0.5f * z;
    return x + y + 0.693359375f * exponent;
}

struct SineCosine {
    float sine;
    float cosine;
};

// Of the angle 2 pi k / 2^23 for k < 2^23. Polynomials of the Cephes library (sinf, cosf) on
// [-pi/4, pi/4].
SineCosine sineCosineOf(std::uint32_t k) {
    const std::uint32_t turned =
        k + (1u << 20); // an eighth of a turn, so that quadrants are centred
    const std::uint32_t quadrant = (turned >> 21) & 3;
    const auto offset = static_cast<std::int32_t>(turned & 0x1FFFFF) - (1 << 20);
    const float x = static_cast<float>(offset) * 7.490140565847157e-07f; // pi / 2 / 2^21
    const float z = x * x;
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    const float c =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
        0.5f * z + 1.0f;
    const bool swapped = quadrant & 1;
    const float sine = swapped ? c : s;
    const float cosine = swapped ? s : c;
    return {quadrant >= 2 ? -sine : sine, quadrant == 1 || quadrant == 2 ? -cosine : cosine};
}

// Standard normals of blocks first .. first + lanes - 1, four a block.
void makeNormals(std::uint64_t firstBlock, std::array<std::uint32_t, 2> key,
                 float (&out)[batchSize]) {
    Batch batch;
    for (std::size_t i = 0; i < lanes; ++i) {
        const std::uint64_t block = firstBlock + i;
        batch.words[0][i] = static_cast<std::uint32_t>(block);
        batch.words[1][i] = static_cast<std::uint32_t>(block >> 32);
        batch.words[2][i] = batch.words[3][i] = 0;
    }
    philox(batch.words, key);
    float radius[lanes];
    for (std::size_t pair = 0; pair < 2; ++pair) {
        const std::uint32_t *uniforms = batch.words[2 * pair];
        const std::uint32_t *angles = batch.words[2 * pair + 1];
        for (std::size_t i = 0; i < lanes; ++i)
            radius[i] = -2.0f * logOfUniform(uniforms[i] >> 9);
        for (float &r : radius) // a loop of its own: std::sqrt may set errno and is not vectorised
            r = std::sqrt(r);
        for (std::size_t i = 0; i < lanes; ++i) {
            const SineCosine angle = sineCosineOf(angles[i] >> 9);
            out[4 * i + 2 * pair] = radius[i] * angle.cosine;
            out[4 * i + 2 * pair + 1] = radius[i] * angle.sine;
        }
    }
}

// Spreads every bit of its input over the output (splitmix64).
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

std::uint64_t keyOf(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xCBF29CE484222325; // FNV-1a
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return mixed(hash + mixed(seed));
}

} // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
    std::uint32_t words[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
    philox(words, key);
    return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

RandomTensor::RandomTensor(std::uint64_t seed, std::string_view tensorName, double mean,
                           double standardDeviation)
    : m_mean(static_cast<float>(mean)), m_std(static_cast<float>(standardDeviation)) {
    const std::uint64_t key = keyOf(seed, tensorName);
    m_key = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

float RandomTensor::at(std::uint64_t element) const {
    float value = 0;
    fill(element, 1, &value);
    return value;
}

void RandomTensor::fill(std::uint64_t first, std::uint64_t count, float *out) const {
    if (m_std == 0.0f) {
        std::fill_n(out, count, m_mean);
        return;
    }
    float normals[batchSize];
    std::uint64_t done = 0;
    while (done < count) {
        const std::uint64_t batch = (first + done) / batchSize;
        const std::size_t skip = (first + done) % batchSize;
        const std::size_t taken = std::min<std::uint64_t>(batchSize - skip, count - done);
        makeNormals(batch * lanes, m_key, normals);
        for (std::size_t i = 0; i < taken; ++i)
            out[done + i] = m_mean + m_std * normals[skip + i];
        done += taken;
    }
}

} // namespace tpscope
