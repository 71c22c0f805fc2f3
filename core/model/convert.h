// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/dtype.h"

namespace tpscope {

// The same elements as little-endian float32 bytes. Supported: F32 (copied), F64, F16, BF16; any other dtype is copied
// as it is.
std::vector<std::byte> toFloat32(std::span<const std::byte> elements, DType dtype);

float halfToFloat(std::uint16_t bits);
float bfloat16ToFloat(std::uint16_t bits);

} // namespace tpscope
