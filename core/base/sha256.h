// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tpscope {

// SHA-256 of the bytes as 64 lower-case hexadecimal digits. Thread-safe.
std::string sha256Hex(std::span<const std::byte> bytes);

} // namespace tpscope
