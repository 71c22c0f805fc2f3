// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/dtype.h"

// Floating-point formats in memory, rounded to nearest, ties to even, as torch's Tensor.to does.
// Thread-safe.
namespace tpscope {

std::uint16_t toBfloat16(float value);
float fromBfloat16(std::uint16_t bits);
std::uint16_t toFloat16(float value); // too large a value becomes infinity
float fromFloat16(std::uint16_t bits);

// True for the formats convertFloats() reads and writes: F64, F32, F16, BF16.
bool isConvertible(DType dtype);

// count elements, little-endian and not necessarily aligned; in and out do not overlap. Both types
// isConvertible(). By way of float: F64 is rounded to F32 first.
void convertFloats(const std::byte *in, DType from, std::byte *out, DType to, std::size_t count);

} // namespace tpscope
