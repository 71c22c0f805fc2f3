// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/safetensors.h"

namespace tpscope {

// Larger headers are refused, as the reference implementation does.
constexpr std::uint64_t largestSafetensorsHeader = 100'000'000;

// Reads the JSON header of a safetensors file of fileSize bytes whose data begin at byte dataStart,
// and checks all of it: each tensor's dtype, shape and offsets by themselves, and that together
// they cover the data without overlap, gap or rest. Touches no data. Offsets of the result count
// from the start of the file. Errors: BadInput naming file and tensor; Unsupported for dtypes of
// the format that DType lacks.
Result<std::vector<TensorEntry>> readSafetensorsHeader(std::string_view header,
                                                       const std::string &fileName,
                                                       std::uint64_t dataStart,
                                                       std::uint64_t fileSize);

} // namespace tpscope
