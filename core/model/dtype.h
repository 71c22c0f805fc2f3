// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpscope {

// Element types of safetensors (format 0.8) that models use; names as in a safetensors header.
enum class DType { F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, Bool };

std::size_t elementSize(DType dtype);                       // bytes
std::string_view safetensorsName(DType dtype);              // "F32", "BF16", ...
std::string_view torchName(DType dtype);                    // "float32", "bfloat16", ...
std::optional<DType> dtypeFromSafetensors(std::string_view name);
std::optional<DType> dtypeFromTorch(std::string_view name); // with or without "torch."

using Shape = std::vector<std::int64_t>;

std::int64_t elementCount(const Shape &shape); // 1 for a scalar
std::string toText(const Shape &shape);        // "[256, 64]"

} // namespace tpscope
