// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tpscope {

// Reads a JSON object of ours key by key with checks. The first wrong key is remembered and later reads give neutral
// values, so that reading code is a straight list; ask error() at the end. Readers of inner objects share the error.
// The JSON must outlive the reader. Not thread-safe.
class JsonFields {
public:
    JsonFields(const nlohmann::json &json, const std::string &where);

    bool has(const std::string &key) const; // present and not null
    double number(const std::string &key, std::optional<double> fallback = std::nullopt);
    std::int64_t integer(const std::string &key, std::optional<std::int64_t> fallback = std::nullopt);
    int count(const std::string &key, std::optional<int> fallback = std::nullopt); // 0 .. 2^31-1
    std::uint64_t unsignedInteger(const std::string &key, std::optional<std::uint64_t> fallback = std::nullopt);
    bool flag(const std::string &key, std::optional<bool> fallback = std::nullopt);
    // Texts end on terminals and in reports: control characters, with which a file could write to a terminal what it
    // likes, become blanks, and what is not UTF-8 a question mark.
    std::string text(const std::string &key, std::optional<std::string> fallback = std::nullopt);
    std::vector<double> numbers(const std::string &key);       // an absent list is an empty one, here and below
    std::vector<int> counts(const std::string &key);
    std::vector<std::string> texts(const std::string &key);
    std::vector<std::vector<std::int64_t>> integerRows(const std::string &key);
    std::vector<std::string> keys() const;                     // of this object
    JsonFields object(const std::string &key);                 // required
    std::vector<JsonFields> objects(const std::string &key);   // a list of objects
    std::vector<JsonFields> elements(const std::string &key);  // any list, element by element
    const nlohmann::json &json() const { return *m_json; }

    // A value that has the right JSON type and is wrong all the same: "`key` says x, expected y".
    void reject(const std::string &key, const std::string &why);
    bool failed() const { return m_state->error.has_value(); }
    Result<void> error() const;

private:
    struct State {
        std::string where;
        std::optional<Error> error;
    };
    JsonFields(const nlohmann::json &json, std::shared_ptr<State> state, std::string path);
    const nlohmann::json *find(const std::string &key, bool required, const char *expected);
    const nlohmann::json *list(const std::string &key, const char *expected);
    void wrongType(const std::string &key, const nlohmann::json &found, const char *expected);
    template <typename T, typename Is> std::vector<T> listOf(const std::string &key, const char *expected, Is is);

    const nlohmann::json *m_json;
    std::shared_ptr<State> m_state;
    std::string m_path; // "before.environment." or ""
};

} // namespace tpscope
