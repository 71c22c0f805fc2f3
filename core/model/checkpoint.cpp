// SPDX-License-Identifier: GPL-3.0-or-later
// Checkpoint of model/safetensors.h: many safetensors files as one name space.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/safetensors.h"
#include "model/weightindex.h"

namespace tpscope {
namespace {

// Endings of tensor names that only checkpoints with packed weights hold, by the tool that writes
// them.
struct QuantisedRow {
    std::string_view ending;
    std::string_view format;
};
constexpr std::array quantisedRows{
    QuantisedRow{".qweight", "GPTQ or AWQ"},
    QuantisedRow{".weight_packed", "compressed-tensors"},
    QuantisedRow{".weight_scale", "fp8 or int8"},
    QuantisedRow{".weight_scale_inv", "fp8"},
    QuantisedRow{".weight.absmax", "bitsandbytes 4-bit"},
    QuantisedRow{".SCB", "bitsandbytes 8-bit"},
    QuantisedRow{"_proj_blocks", "mxfp4"},
};

const QuantisedRow *quantisedRow(std::string_view name) {
    const auto row = std::ranges::find_if(
        quantisedRows, [&](const QuantisedRow &r) { return name.ends_with(r.ending); });
    return row == quantisedRows.end() ? nullptr : &*row;
}

} // namespace

Result<Checkpoint> Checkpoint::open(const std::vector<std::filesystem::path> &files,
                                    const std::filesystem::path &index) {
    Checkpoint checkpoint;
    for (const std::filesystem::path &path : files) {
        auto file = SafetensorsFile::open(path);
        if (!file)
            return tl::unexpected(file.error());
        const auto &kept =
            checkpoint.m_files.emplace_back(std::make_shared<SafetensorsFile>(std::move(*file)));
        for (const TensorEntry &entry : kept->entries()) {
            if (const QuantisedRow *row = quantisedRow(entry.name))
                return fail(ErrorCode::Unsupported,
                            "tensor " + inQuotes(entry.name) +
                                " belongs to a quantised checkpoint (" + std::string(row->format) +
                                "); use the model's unquantised weights",
                            Location{path.string()});
            const auto [place, isNew] =
                checkpoint.m_places.try_emplace(entry.name, Place{kept.get(), &entry});
            if (!isNew)
                return fail(ErrorCode::BadInput,
                            "tensor " + inQuotes(entry.name) + " is also in " +
                                place->second.file->path().string(),
                            Location{path.string()});
        }
    }
    if (!index.empty())
        if (const auto agrees = checkpoint.checkIndex(index); !agrees)
            return tl::unexpected(agrees.error());
    return checkpoint;
}

Result<void> Checkpoint::checkIndex(const std::filesystem::path &path) const {
    const auto index = readWeightIndex(path);
    if (!index)
        return tl::unexpected(index.error());
    for (const WeightIndex::Entry &entry : index->entries) {
        const SafetensorsFile *holder = fileOf(entry.tensor);
        const std::string &named = index->files[entry.file];
        if (holder && holder->path() == path.parent_path() / named)
            continue;
        return fail(ErrorCode::BadInput,
                    "weight_map says tensor " + inQuotes(entry.tensor) + " is in " +
                        inQuotes(named) + ", which does not hold it" +
                        (holder ? "; it is in " + inQuotes(holder->path().filename().string())
                                : std::string()),
                    Location{path.string()});
    }
    return {};
}

const TensorEntry *Checkpoint::find(const std::string &name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() ? nullptr : found->second.entry;
}

const SafetensorsFile *Checkpoint::fileOf(const std::string &name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() ? nullptr : found->second.file;
}

std::span<const std::byte> Checkpoint::bytes(const std::string &name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() ? std::span<const std::byte>()
                                   : found->second.file->bytes(*found->second.entry);
}

std::vector<std::string> Checkpoint::names() const {
    std::vector<std::string> out;
    out.reserve(m_places.size());
    for (const auto &[name, place] : m_places)
        out.emplace_back(name);
    std::ranges::sort(out);
    return out;
}

} // namespace tpscope
