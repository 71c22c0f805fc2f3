// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/safetensorsheader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "model/jsonreader.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

// Element types of the format that no model TPScope describes uses.
bool isOtherFormatDtype(std::string_view name) {
    constexpr std::array others{"U16",     "U32",     "U64",     "C64",         "F4",
                                "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};
    return std::ranges::find(others, name) != others.end();
}

// Builds the entries while the parser runs, so that a header of many thousand tensors needs no JSON
// tree. Offsets are relative to the data here. nlohmann's own tree keeps the last of two equal keys
// silently; this sees both.
class HeaderReader final : public nlohmann::json_sax<Json> {
public:
    explicit HeaderReader(std::string fileName) : m_fileName(std::move(fileName)) {}

    std::optional<Error> error;
    std::vector<TensorEntry> entries;

    bool null() override { return value("null", m_at == At::Header && m_isMetadata); }
    bool boolean(bool flag) override { return value(flag ? "true" : "false", false); }
    bool number_integer(std::int64_t number) override {
        return value(std::to_string(number), false);
    }
    bool number_float(double, const std::string &text) override { return value(text, false); }
    bool binary(binary_t &) override { return value("binary data", false); }
    bool parse_error(std::size_t, const std::string &, const Json::exception &) override {
        return false; // kept by readJson()
    }

    bool number_unsigned(std::uint64_t number) override {
        if (m_at == At::Shape) {
            if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return refuse("a dimension of " + std::to_string(number) + " is too large");
            entries.back().shape.push_back(static_cast<std::int64_t>(number));
            return true;
        }
        if (m_at == At::Offsets) {
            if (m_offsets < 2)
                (m_offsets == 0 ? entries.back().begin : entries.back().end) = number;
            ++m_offsets;
            return true;
        }
        return value(std::to_string(number), false);
    }

    bool string(std::string &text) override {
        if (m_at == At::Tensor && m_field == "dtype")
            return dtype(text);
        return value("\"" + shortened(text) + "\"", m_at == At::Metadata);
    }

    bool start_object(std::size_t) override {
        if (m_skipped > 0 || (m_at == At::Tensor && !isKnownField()))
            return ++m_skipped > 0;
        switch (m_at) {
        case At::Outside: m_at = At::Header; return true;
        case At::Header: m_at = m_isMetadata ? At::Metadata : At::Tensor; return true;
        default: return value("an object", false);
        }
    }

    bool end_object() override {
        if (m_skipped > 0)
            return --m_skipped >= 0;
        if (m_at == At::Tensor && !checkComplete())
            return false;
        m_at = m_at == At::Header ? At::Outside : At::Header;
        return true;
    }

    bool start_array(std::size_t) override {
        if (m_skipped > 0 || (m_at == At::Tensor && !isKnownField()))
            return ++m_skipped > 0;
        if (m_at == At::Tensor && m_field == "shape")
            m_at = At::Shape;
        else if (m_at == At::Tensor && m_field == "data_offsets")
            m_at = At::Offsets;
        else
            return value("an array", false);
        return true;
    }

    bool end_array() override {
        if (m_skipped > 0)
            return --m_skipped >= 0;
        if (m_at == At::Offsets && m_offsets != 2)
            return refuse("data_offsets: expected 2 numbers, found " + std::to_string(m_offsets));
        m_at = At::Tensor;
        return true;
    }

    bool key(std::string &name) override {
        if (m_skipped > 0 || m_at == At::Metadata)
            return true;
        if (m_at == At::Header)
            return startTensor(name);
        m_field = name;
        const auto known = std::ranges::find(fields, name);
        if (known == fields.end())
            return true;
        bool &seen = m_seen[static_cast<std::size_t>(known - fields.begin())];
        return std::exchange(seen, true) ? refuse(name + " is given twice") : true;
    }

private:
    enum class At { Outside, Header, Metadata, Tensor, Shape, Offsets };
    static constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};

    bool isKnownField() const { return std::ranges::find(fields, m_field) != fields.end(); }

    bool startTensor(const std::string &name) {
        m_isMetadata = name == "__metadata__";
        if (!m_names.insert(name).second) {
            error =
                Error{ErrorCode::BadInput, "tensor " + inQuotes(name) + " is in the header twice",
                      Location{m_fileName}};
            return false;
        }
        if (m_isMetadata)
            return true;
        entries.emplace_back().name = name;
        m_seen.fill(false);
        m_field.clear();
        m_offsets = 0;
        return true;
    }

    bool dtype(const std::string &text) {
        const auto found = dtypeFromSafetensors(text);
        if (found) {
            entries.back().dtype = *found;
            return true;
        }
        if (!isOtherFormatDtype(text))
            return refuse("unknown dtype \"" + shortened(text) + "\"");
        refuse("dtype " + text +
               " is not supported; a quantised checkpoint must be dequantised first");
        error->code = ErrorCode::Unsupported;
        return false;
    }

    bool checkComplete() {
        for (std::size_t i = 0; i < fields.size(); ++i)
            if (!m_seen[i])
                return refuse("its " + std::string(fields[i]) + " is missing");
        return true;
    }

    // Any value where only some are allowed.
    bool value(const std::string &found, bool allowed) {
        if (allowed || m_skipped > 0 || (m_at == At::Tensor && !isKnownField()))
            return true;
        switch (m_at) {
        case At::Outside: return refuse("expected an object of tensors, found " + found);
        case At::Header: return refuse("expected an object, found " + found);
        case At::Metadata: return refuse("expected texts in __metadata__, found " + found);
        case At::Tensor:
            return refuse(m_field + ": expected " +
                          (m_field == "dtype" ? "a name such as \"F32\"" : "an array of numbers") +
                          ", found " + found);
        case At::Shape:
        case At::Offsets:
            return refuse(m_field + ": expected whole numbers from 0, found " + found);
        }
        return false;
    }

    bool refuse(const std::string &why) {
        const bool inTensor = m_at != At::Outside && !m_isMetadata && !entries.empty();
        error = Error{
            ErrorCode::BadInput,
            (inTensor ? "tensor " + inQuotes(entries.back().name) + ": " : "safetensors header: ") +
                why,
            Location{m_fileName}};
        return false;
    }

    std::string m_fileName;
    std::unordered_set<std::string> m_names;
    At m_at = At::Outside;
    bool m_isMetadata = false;
    std::string m_field; // of the tensor being read
    std::array<bool, 3> m_seen{};
    int m_offsets = 0;
    int m_skipped = 0; // depth within the value of an unknown field
};

// Bytes the shape needs; nullopt: more than 64 bits count.
std::optional<std::uint64_t> bytesOf(const TensorEntry &entry) {
    std::uint64_t bytes = elementSize(entry.dtype);
    for (const std::int64_t size : entry.shape)
        if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
            return std::nullopt;
    return bytes;
}

std::string rangeText(const TensorEntry &entry) {
    return "bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
           " of the data";
}

std::string typeText(const TensorEntry &entry) {
    return std::string(safetensorsName(entry.dtype)) + " " + shortened(toText(entry.shape), 80);
}

// What is wrong with a tensor by itself; "" nothing.
std::string problemOf(const TensorEntry &entry, std::uint64_t dataSize) {
    if (entry.end < entry.begin)
        return rangeText(entry) + ": the end stands before the begin";
    if (entry.end > dataSize)
        return rangeText(entry) + ": the file is truncated, it has " + std::to_string(dataSize) +
               " bytes of data";
    const auto needed = bytesOf(entry);
    if (!needed)
        return typeText(entry) + " is larger than any file";
    if (*needed != entry.end - entry.begin)
        return rangeText(entry) + " are " + std::to_string(entry.end - entry.begin) + " bytes, " +
               typeText(entry) + " needs " + std::to_string(*needed);
    if (entry.begin % elementSize(entry.dtype) != 0)
        return rangeText(entry) + ": unaligned, " + typeText(entry) +
               " must begin at a multiple of " + std::to_string(elementSize(entry.dtype));
    return {};
}

// What is wrong with the tensors together: they must cover the data exactly.
std::string coverageProblem(const std::vector<TensorEntry> &entries, std::uint64_t dataSize) {
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {},
                      [&](std::size_t i) { return std::pair(entries[i].begin, entries[i].end); });
    std::uint64_t covered = 0;
    const TensorEntry *previous = nullptr;
    for (const std::size_t i : order) {
        const TensorEntry &entry = entries[i];
        if (entry.begin < covered)
            return "tensors " + inQuotes(previous->name) + " and " + inQuotes(entry.name) +
                   " overlap: one ends at byte " + std::to_string(covered) +
                   " of the data, the other begins at " + std::to_string(entry.begin);
        if (entry.begin > covered)
            return "tensor " + inQuotes(entry.name) + ": bytes " + std::to_string(covered) +
                   " to " + std::to_string(entry.begin) +
                   " of the data before it belong to no tensor";
        covered = entry.end;
        previous = &entry;
    }
    if (covered < dataSize)
        return std::to_string(dataSize - covered) +
               " bytes at the end of the file belong to no tensor" +
               (previous ? " (the last is " + inQuotes(previous->name) + ")" : std::string());
    return {};
}

} // namespace

Result<std::vector<TensorEntry>> readSafetensorsHeader(std::string_view header,
                                                       const std::string &fileName,
                                                       std::uint64_t dataStart,
                                                       std::uint64_t fileSize) {
    const auto bad = [&](const std::string &what) {
        return fail(ErrorCode::BadInput, what, Location{fileName});
    };
    if (header.empty() || header.front() != '{')
        return bad("not a safetensors file: its header does not begin with \"{\"");
    HeaderReader reader(fileName);
    const auto read = readJson(header, fileName, reader);
    if (reader.error)
        return tl::unexpected(*reader.error);
    if (!read) {
        // Line and column of a header nobody can open in an editor would mislead.
        return bad("safetensors header: " + read.error().message + " (character " +
                   std::to_string(read.error().location ? read.error().location->column : 0) + ")");
    }
    const std::uint64_t dataSize = fileSize - dataStart;
    for (const TensorEntry &entry : reader.entries)
        if (const std::string problem = problemOf(entry, dataSize); !problem.empty())
            return bad("tensor " + inQuotes(entry.name) + ": " + problem);
    if (const std::string problem = coverageProblem(reader.entries, dataSize); !problem.empty())
        return bad(problem);
    for (TensorEntry &entry : reader.entries) {
        entry.begin += dataStart;
        entry.end += dataStart;
    }
    return std::move(reader.entries);
}

} // namespace tpscope
