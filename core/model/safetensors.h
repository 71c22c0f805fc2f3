// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

// A safetensors file mapped read-only. Every offset of the header is checked against the file and
// against the shape before it is used; bytes are touched only when read. Move-only; thread-safe for
// reading. A file that somebody else shortens while it is mapped makes reads of a view fail in
// hardware (SIGBUS): see unchanged(). Source: the safetensors format, 0.8: 8-byte little-endian
// header length, JSON header, data.
class SafetensorsFile {
public:
    // Errors: NotFound; BadInput naming file and tensor: truncated, header length past the end,
    // overlapping, unaligned or out-of-range offsets, bytes of no tensor, sizes that do not fit the
    // shape, unknown dtype, duplicate names; Unsupported for dtypes of the format that DType lacks.
    static Result<SafetensorsFile> open(const std::filesystem::path &path);
    SafetensorsFile(SafetensorsFile &&) noexcept;
    SafetensorsFile &operator=(SafetensorsFile &&) noexcept;
    ~SafetensorsFile();

    const std::filesystem::path &path() const;
    const std::vector<TensorEntry> &entries() const; // in header order
    const TensorEntry *find(const std::string &name) const;
    // A view of the mapping, row-major, little-endian. Not aligned where the header's length is not
    // (old files): copy elements out, do not cast.
    std::span<const std::byte> bytes(const TensorEntry &entry) const;
    // False once the file's size is no longer what it was at open. Ask before reading much.
    bool unchanged() const;

private:
    struct Impl;
    explicit SafetensorsFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

// All files of a checkpoint as one name space.
class Checkpoint {
public:
    // index: the model.safetensors.index.json the files come from (ModelSource::indexPath), or
    // empty. Errors: as above, and: a name in two files, a file of the index that is missing, an
    // index naming a tensor that its file does not hold; Unsupported for quantised checkpoints.
    static Result<Checkpoint> open(const std::vector<std::filesystem::path> &files,
                                   const std::filesystem::path &index = {});
    const TensorEntry *find(const std::string &name) const;
    std::span<const std::byte> bytes(const std::string &name) const; // empty: no such tensor
    std::vector<std::string> names() const;                          // sorted
    const SafetensorsFile *fileOf(const std::string &name) const;    // nullptr: no such tensor

private:
    struct Place {
        const SafetensorsFile *file;
        const TensorEntry *entry;
    };
    Result<void> checkIndex(const std::filesystem::path &path) const;

    std::vector<std::shared_ptr<SafetensorsFile>> m_files;
    std::unordered_map<std::string_view, Place> m_places; // names live in the files' entries
};

// Writes tensors (name, dtype, shape, bytes) as one file, atomically, larger elements first so that
// all are aligned. Holds the whole file in memory. Used for logits and tests. Errors: Usage where
// bytes do not fit the shape or a name repeats; those of writeFileAtomically().
struct TensorToWrite {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    std::span<const std::byte> bytes;
};
Result<void> writeSafetensors(const std::filesystem::path &path,
                              const std::vector<TensorToWrite> &tensors);

} // namespace tpscope
