// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

// Safetensors files byte by byte, well-formed or not, without the code under test.
namespace tpscope::testing {

inline std::string littleEndian64(std::uint64_t value) {
    std::string out;
    for (int i = 0; i < 8; ++i)
        out += static_cast<char>((value >> (8 * i)) & 0xFF);
    return out;
}

// Length, header as it stands, `dataSize` zero bytes.
inline std::string rawSafetensors(std::string_view header, std::size_t dataSize) {
    return littleEndian64(header.size()) + std::string(header) + std::string(dataSize, '\0');
}

// "name": {dtype, shape, data_offsets} as JSON text.
inline std::string tensorJson(std::string_view name, std::string_view dtype, std::string_view shape,
                              std::uint64_t begin, std::uint64_t end) {
    return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
           "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[" + std::to_string(begin) +
           "," + std::to_string(end) + "]}";
}

inline std::filesystem::path writeBytes(const std::filesystem::path &path, std::string_view bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
}

} // namespace tpscope::testing
