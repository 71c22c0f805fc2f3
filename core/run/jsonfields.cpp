// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/jsonfields.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "model/jsonreader.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longestText = 10000;

bool isCount(const Json &value) {
    return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int>::max();
}

bool isInteger(const Json &value) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() &&
             value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

bool isNumber(const Json &value) { return value.is_number() && std::isfinite(value.get<double>()); }

// A value as a message shows it: short, on one line. Structures only by name: they may be huge or deep.
std::string shown(const Json &value) {
    if (value.is_array())
        return "a list";
    if (value.is_object())
        return "an object";
    return jsonText(value);
}

} // namespace

JsonFields::JsonFields(const Json &json, const std::string &where)
    : JsonFields(json, std::make_shared<State>(State{where, std::nullopt}), {}) {
    if (!json.is_object())
        m_state->error = Error{ErrorCode::BadInput, "expected a JSON object, found " + shown(json), Location{where}};
}

JsonFields::JsonFields(const Json &json, std::shared_ptr<State> state, std::string path)
    : m_json(&json), m_state(std::move(state)), m_path(std::move(path)) {}

Result<void> JsonFields::error() const {
    if (m_state->error)
        return tl::unexpected(*m_state->error);
    return {};
}

void JsonFields::reject(const std::string &key, const std::string &why) {
    if (!m_state->error)
        m_state->error = Error{ErrorCode::BadInput, "`" + m_path + key + "` " + why, Location{m_state->where}};
}

void JsonFields::wrongType(const std::string &key, const Json &found, const char *expected) {
    reject(key, std::string("must be ") + expected + ", found " + shown(found));
}

bool JsonFields::has(const std::string &key) const {
    if (!m_json->is_object())
        return false;
    const auto it = m_json->find(key);
    return it != m_json->end() && !it->is_null();
}

const Json *JsonFields::find(const std::string &key, bool required, const char *expected) {
    if (has(key))
        return &*m_json->find(key);
    if (required)
        reject(key, std::string("is missing: expected ") + expected);
    return nullptr;
}

double JsonFields::number(const std::string &key, std::optional<double> fallback) {
    const char *expected = "a number";
    const Json *value = find(key, !fallback, expected);
    if (value && isNumber(*value))
        return value->get<double>();
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or(0.0);
}

std::int64_t JsonFields::integer(const std::string &key, std::optional<std::int64_t> fallback) {
    const char *expected = "an integer";
    const Json *value = find(key, !fallback, expected);
    if (value && isInteger(*value))
        return value->get<std::int64_t>();
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or(0);
}

int JsonFields::count(const std::string &key, std::optional<int> fallback) {
    const char *expected = "an integer from 0";
    const Json *value = find(key, !fallback, expected);
    if (value && isCount(*value))
        return value->get<int>();
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or(0);
}

std::uint64_t JsonFields::unsignedInteger(const std::string &key, std::optional<std::uint64_t> fallback) {
    const char *expected = "an integer from 0";
    const Json *value = find(key, !fallback, expected);
    if (value && value->is_number_integer() && (value->is_number_unsigned() || value->get<std::int64_t>() >= 0))
        return value->get<std::uint64_t>();
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or(0);
}

bool JsonFields::flag(const std::string &key, std::optional<bool> fallback) {
    const char *expected = "true or false";
    const Json *value = find(key, !fallback, expected);
    if (value && value->is_boolean())
        return value->get<bool>();
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or(false);
}

std::string JsonFields::text(const std::string &key, std::optional<std::string> fallback) {
    const char *expected = "a text";
    const Json *value = find(key, !fallback, expected);
    if (value && value->is_string())
        return shortened(value->get<std::string>(), longestText);
    if (value)
        wrongType(key, *value, expected);
    return fallback.value_or("");
}

const Json *JsonFields::list(const std::string &key, const char *expected) {
    const Json *value = find(key, false, expected);
    if (!value || value->is_array())
        return value;
    wrongType(key, *value, expected);
    return nullptr;
}

template <typename T, typename Is>
std::vector<T> JsonFields::listOf(const std::string &key, const char *expected, Is is) {
    std::vector<T> result;
    const Json *values = list(key, expected);
    if (!values)
        return result;
    result.reserve(values->size());
    for (std::size_t i = 0; i < values->size(); ++i) {
        const Json &value = (*values)[i];
        if (!is(value)) {
            wrongType(key + "[" + std::to_string(i) + "]", value, expected);
            return {};
        }
        result.push_back(value.template get<T>());
    }
    return result;
}

std::vector<double> JsonFields::numbers(const std::string &key) {
    return listOf<double>(key, "a list of numbers", isNumber);
}

std::vector<int> JsonFields::counts(const std::string &key) {
    return listOf<int>(key, "a list of integers from 0", isCount);
}

std::vector<std::string> JsonFields::texts(const std::string &key) {
    auto result = listOf<std::string>(key, "a list of texts", [](const Json &value) { return value.is_string(); });
    for (std::string &text : result)
        text = shortened(text, longestText);
    return result;
}

std::vector<std::vector<std::int64_t>> JsonFields::integerRows(const std::string &key) {
    const auto isRow = [](const Json &value) {
        if (!value.is_array())
            return false;
        for (const Json &element : value)
            if (!isInteger(element))
                return false;
        return true;
    };
    return listOf<std::vector<std::int64_t>>(key, "a list of lists of integers", isRow);
}

std::vector<std::string> JsonFields::keys() const {
    std::vector<std::string> result;
    if (m_json->is_object())
        for (const auto &item : m_json->items())
            result.push_back(item.key());
    return result;
}

JsonFields JsonFields::object(const std::string &key) {
    static const Json empty = Json::object();
    const char *expected = "an object";
    const Json *value = find(key, true, expected);
    if (value && !value->is_object())
        wrongType(key, *value, expected);
    return {value && value->is_object() ? *value : empty, m_state, m_path + key + "."};
}

std::vector<JsonFields> JsonFields::elements(const std::string &key) {
    std::vector<JsonFields> result;
    if (const Json *values = list(key, "a list"))
        for (std::size_t i = 0; i < values->size(); ++i)
            result.push_back({(*values)[i], m_state, m_path + key + "[" + std::to_string(i) + "]."});
    return result;
}

std::vector<JsonFields> JsonFields::objects(const std::string &key) {
    std::vector<JsonFields> result = elements(key);
    for (std::size_t i = 0; i < result.size(); ++i)
        if (!result[i].json().is_object()) {
            wrongType(key + "[" + std::to_string(i) + "]", result[i].json(), "an object");
            return {};
        }
    return result;
}

} // namespace tpscope
