// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/weightindex.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/resources.h"
#include "base/text.h"
#include "model/jsonreader.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

// Collects weight_map and skips the rest; a parsed tree would hide a tensor that is named twice.
class IndexReader final : public nlohmann::json_sax<Json> {
public:
    WeightIndex index;
    std::string problem;
    bool hasMap = false;

    bool null() override { return value("null"); }
    bool boolean(bool flag) override { return value(flag ? "true" : "false"); }
    bool number_integer(std::int64_t number) override { return value(std::to_string(number)); }
    bool number_unsigned(std::uint64_t number) override { return value(std::to_string(number)); }
    bool number_float(double, const std::string &text) override { return value(text); }
    bool binary(binary_t &) override { return value("binary data"); }
    bool start_array(std::size_t) override { return value("an array") && ++m_depth > 0; }
    bool end_array() override { return --m_depth >= 0; }
    bool end_object() override { return --m_depth >= 0; }
    bool parse_error(std::size_t, const std::string &, const Json::exception &) override {
        return false; // kept by readJson()
    }

    bool start_object(std::size_t) override {
        if (m_depth == 1 && m_inMap)
            hasMap = true;
        else if (!value("an object"))
            return false;
        ++m_depth;
        return true;
    }

    bool key(std::string &name) override {
        if (m_depth == 1) {
            m_inMap = name == "weight_map";
            if (m_inMap && hasMap)
                return refuse("weight_map is given twice");
        } else if (m_depth == 2 && m_inMap) {
            if (!m_tensors.insert(name).second)
                return refuse("weight_map names tensor " + inQuotes(name) + " twice");
            m_tensor = name;
        }
        return true;
    }

    bool string(std::string &text) override {
        if (m_depth != 2 || !m_inMap)
            return value(inQuotes(text));
        const auto [file, isNew] = m_files.try_emplace(text, index.files.size());
        if (isNew)
            index.files.push_back(text);
        index.entries.push_back({m_tensor, file->second});
        return true;
    }

private:
    bool value(const std::string &found) {
        if (m_depth == 0 && found != "an object")
            return refuse("expected an object with a weight_map, found " + found);
        if (m_depth == 1 && m_inMap)
            return refuse("weight_map: expected an object, found " + found);
        if (m_depth == 2 && m_inMap)
            return refuse("weight_map, tensor " + inQuotes(m_tensor) +
                          ": expected a file name, found " + found);
        return true;
    }

    bool refuse(const std::string &why) {
        problem = why;
        return false;
    }

    int m_depth = 0;
    bool m_inMap = false; // the last key of the outermost object was weight_map
    std::string m_tensor;
    std::unordered_set<std::string> m_tensors;
    std::unordered_map<std::string, std::size_t> m_files;
};

bool staysInside(const std::string &name) {
    const std::filesystem::path path(name);
    return !name.empty() && name.find('\0') == std::string::npos && path.is_relative() &&
           std::ranges::none_of(path, [](const auto &part) { return part == ".."; });
}

} // namespace

const std::string &WeightIndex::firstTensorOf(std::size_t file) const {
    return std::ranges::find(entries, file, &Entry::file)->tensor;
}

Result<WeightIndex> readWeightIndex(const std::filesystem::path &path) {
    const auto bad = [&](const std::string &what) {
        return fail(ErrorCode::BadInput, what, Location{path.string()});
    };
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    IndexReader reader;
    const auto read = readJson(*text, path.string(), reader);
    if (!reader.problem.empty())
        return bad(reader.problem);
    if (!read)
        return tl::unexpected(read.error());
    if (!reader.hasMap)
        return bad("key \"weight_map\" is missing; expected the file name of each tensor there");
    if (reader.index.entries.empty())
        return bad("weight_map names no tensor");
    for (std::size_t i = 0; i < reader.index.files.size(); ++i)
        if (!staysInside(reader.index.files[i]))
            return bad("weight_map, tensor " + inQuotes(reader.index.firstTensorOf(i)) + ": file " +
                       inQuotes(reader.index.files[i]) + " lies outside the model's folder");
    return std::move(reader.index);
}

} // namespace tpscope
