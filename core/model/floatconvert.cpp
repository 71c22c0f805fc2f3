// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/floatconvert.h"

#include <bit>
#include <cstring>

namespace tpscope {
namespace {

template <typename T> T loadAs(const std::byte *bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

template <typename T> void storeAs(std::byte *bytes, T value) {
    std::memcpy(bytes, &value, sizeof value);
}

// Elements are converted through a block of floats that stays in the first-level cache.
constexpr std::size_t blockSize = 1024;

void toFloats(const std::byte *in, DType from, float *out, std::size_t count) {
    switch (from) {
    case DType::F64:
        for (std::size_t i = 0; i < count; ++i)
            out[i] = static_cast<float>(loadAs<double>(in + 8 * i));
        break;
    case DType::F16:
        for (std::size_t i = 0; i < count; ++i)
            out[i] = fromFloat16(loadAs<std::uint16_t>(in + 2 * i));
        break;
    case DType::BF16:
        for (std::size_t i = 0; i < count; ++i)
            out[i] = fromBfloat16(loadAs<std::uint16_t>(in + 2 * i));
        break;
    default: std::memcpy(out, in, count * sizeof(float)); break;
    }
}

void fromFloats(const float *in, std::byte *out, DType to, std::size_t count) {
    switch (to) {
    case DType::F64:
        for (std::size_t i = 0; i < count; ++i)
            storeAs(out + 8 * i, static_cast<double>(in[i]));
        break;
    case DType::F16:
        for (std::size_t i = 0; i < count; ++i)
            storeAs(out + 2 * i, toFloat16(in[i]));
        break;
    case DType::BF16:
        for (std::size_t i = 0; i < count; ++i)
            storeAs(out + 2 * i, toBfloat16(in[i]));
        break;
    default: std::memcpy(out, in, count * sizeof(float)); break;
    }
}

} // namespace

std::uint16_t toBfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (value != value)
        return 0x7FC0;
    return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float fromBfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t toFloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
    const std::uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return static_cast<std::uint16_t>(sign | 0x7E00); // not a number
    if (magnitude >= 0x477FF000)                          // 65520 and above round to infinity
        return static_cast<std::uint16_t>(sign | 0x7C00);
    if (magnitude < 0x38800000) {
        // Subnormal results are multiples of 2^-24: adding 0.5 leaves just those bits, rounded by
        // the addition.
        const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<std::uint16_t>(sign |
                                          (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000));
    }
    const std::uint32_t rebiased = magnitude - (std::uint32_t{127 - 15} << 23);
    const std::uint32_t rounded = rebiased + 0xFFF + ((rebiased >> 13) & 1);
    return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float fromFloat16(std::uint16_t bits) {
    const std::uint32_t sign = (std::uint32_t{bits} & 0x8000) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1F;
    const std::uint32_t fraction = bits & 0x3FF;
    if (exponent == 0x1F)
        return std::bit_cast<float>(sign | 0x7F800000 | (fraction << 13));
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

bool isConvertible(DType dtype) {
    return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
           dtype == DType::BF16;
}

void convertFloats(const std::byte *in, DType from, std::byte *out, DType to, std::size_t count) {
    if (from == to) {
        std::memcpy(out, in, count * elementSize(from));
        return;
    }
    float block[blockSize];
    for (std::size_t done = 0; done < count; done += blockSize) {
        const std::size_t n = count - done < blockSize ? count - done : blockSize;
        toFloats(in + done * elementSize(from), from, block, n);
        fromFloats(block, out + done * elementSize(to), to, n);
    }
}

} // namespace tpscope
