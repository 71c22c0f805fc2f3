// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/dtype.h"

namespace tpscope {

struct TensorEntry {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    std::size_t begin = 0; // bytes from the start of the file
    std::size_t end = 0;
};

// A safetensors file mapped read-only. Every offset of the header is checked against the file and against the shape
// before it is used; bytes are touched only when read. Move-only; thread-safe for reading.
// Source: the safetensors format, 0.8: 8-byte little-endian header length, JSON header, data.
class SafetensorsFile {
public:
    // Errors: BadInput naming file and tensor: truncated, header length past the end, overlapping or out-of-range
    // offsets, sizes that do not fit the shape, unknown dtype, duplicate names.
    static Result<SafetensorsFile> open(const std::filesystem::path &path);
    SafetensorsFile(SafetensorsFile &&) noexcept;
    SafetensorsFile &operator=(SafetensorsFile &&) noexcept;
    ~SafetensorsFile();

    const std::filesystem::path &path() const;
    const std::vector<TensorEntry> &entries() const; // in header order
    const TensorEntry *find(const std::string &name) const;
    std::span<const std::byte> bytes(const TensorEntry &entry) const; // a view of the mapping

private:
    struct Impl;
    explicit SafetensorsFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

// All files of a checkpoint as one name space.
class Checkpoint {
public:
    // Errors: as above, and: a name in two files, a file of the index that is missing, an index naming a tensor that
    // its file does not hold, quantised checkpoints (named as such).
    static Result<Checkpoint> open(const std::vector<std::filesystem::path> &files);
    const TensorEntry *find(const std::string &name) const;
    std::span<const std::byte> bytes(const std::string &name) const; // empty: no such tensor
    std::vector<std::string> names() const;

private:
    std::vector<std::shared_ptr<SafetensorsFile>> m_files;
    std::map<std::string, std::size_t> m_fileOf;
};

// Writes tensors (name, dtype, shape, bytes) as one file, atomically. Used for logits and tests.
struct TensorToWrite {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    std::span<const std::byte> bytes;
};
Result<void> writeSafetensors(const std::filesystem::path &path, const std::vector<TensorToWrite> &tensors);

} // namespace tpscope
