// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/convert.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace tpscope {

float bfloat16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float halfToFloat(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
    std::uint32_t exponent = (bits >> 10) & 0x1FU;
    std::uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 0x1F)
        return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
    if (exponent == 0) {
        if (mantissa == 0)
            return std::bit_cast<float>(sign);
        exponent = 1; // subnormal: shift until the hidden bit appears
        while (!(mantissa & 0x400U)) {
            mantissa <<= 1;
            --exponent;
        }
        mantissa &= 0x3FFU;
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

namespace {

template <typename Stored, typename Convert>
std::vector<std::byte> converted(std::span<const std::byte> elements, Convert convert) {
    const std::size_t count = elements.size() / sizeof(Stored);
    std::vector<std::byte> out(count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
        Stored stored;
        std::memcpy(&stored, elements.data() + i * sizeof(Stored), sizeof stored);
        const float value = convert(stored);
        std::memcpy(out.data() + i * sizeof(float), &value, sizeof value);
    }
    return out;
}

} // namespace

std::vector<std::byte> toFloat32(std::span<const std::byte> elements, DType dtype) {
    switch (dtype) {
    case DType::F64:
        return converted<double>(elements, [](double value) { return static_cast<float>(value); });
    case DType::F16:
        return converted<std::uint16_t>(elements, halfToFloat);
    case DType::BF16:
        return converted<std::uint16_t>(elements, bfloat16ToFloat);
    default:
        return {elements.begin(), elements.end()};
    }
}

} // namespace tpscope
