// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/dtype.h"

#include <array>

namespace tpscope {
namespace {

struct Row {
    DType dtype;
    std::size_t bytes;
    std::string_view safetensors;
    std::string_view torch;
};

constexpr std::array<Row, 12> rows{{
    {DType::F64, 8, "F64", "float64"},
    {DType::F32, 4, "F32", "float32"},
    {DType::F16, 2, "F16", "float16"},
    {DType::BF16, 2, "BF16", "bfloat16"},
    {DType::F8E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::F8E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::I64, 8, "I64", "int64"},
    {DType::I32, 4, "I32", "int32"},
    {DType::I16, 2, "I16", "int16"},
    {DType::I8, 1, "I8", "int8"},
    {DType::U8, 1, "U8", "uint8"},
    {DType::Bool, 1, "BOOL", "bool"},
}};

const Row &rowOf(DType dtype) { return rows[static_cast<std::size_t>(dtype)]; }

} // namespace

std::size_t elementSize(DType dtype) { return rowOf(dtype).bytes; }
std::string_view safetensorsName(DType dtype) { return rowOf(dtype).safetensors; }
std::string_view torchName(DType dtype) { return rowOf(dtype).torch; }

std::optional<DType> dtypeFromSafetensors(std::string_view name) {
    for (const Row &row : rows)
        if (row.safetensors == name)
            return row.dtype;
    return std::nullopt;
}

std::optional<DType> dtypeFromTorch(std::string_view name) {
    if (name.starts_with("torch."))
        name.remove_prefix(6);
    for (const Row &row : rows)
        if (row.torch == name)
            return row.dtype;
    return std::nullopt;
}

std::int64_t elementCount(const Shape &shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape)
        count *= size;
    return count;
}

std::string toText(const Shape &shape) {
    std::string out = "[";
    for (std::size_t i = 0; i < shape.size(); ++i)
        out += (i ? ", " : "") + std::to_string(shape[i]);
    return out + "]";
}

} // namespace tpscope
