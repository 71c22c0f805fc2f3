// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/modelconfig.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/resources.h"
#include "model/jsonreader.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t largestInteger = std::int64_t{1} << 31;

tl::unexpected<Error> wrongValue(const std::string &fileName, const std::string &key,
                                 const std::string &expected, const Json *found) {
    return fail(ErrorCode::BadInput,
                "key \"" + key + "\": expected " + expected + ", found " +
                    (found ? jsonText(*found) : std::string("nothing: the key is missing")),
                Location{fileName});
}

// nullptr: absent or null.
const Json *valueOf(const Json &object, const std::string &key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

// What a rope type cannot do without. Source: transformers 5.24 modeling_rope_utils.py,
// _validate_<type>_rope_parameters (rope_type and rope_theta always get a value). A key that is
// null counts as given.
struct RopeRow {
    std::string_view type;
    std::array<std::string_view, 4> required;
    bool readsOriginalLength; // original_max_position_embeddings falls back to
                              // max_position_embeddings
    bool infersFactor; // factor falls back to max_position / original_max_position_embeddings
};
constexpr std::array ropeRows{
    RopeRow{"linear", {"factor"}, false, false},
    RopeRow{"dynamic", {"factor"}, false, false},
    RopeRow{"llama3", {"factor", "low_freq_factor", "high_freq_factor"}, true, false},
    RopeRow{"yarn", {"factor"}, true, true},
    RopeRow{"longrope", {"short_factor", "long_factor"}, true, true},
};

const RopeRow *ropeRow(const std::string &type) {
    const auto row = std::ranges::find(ropeRows, type, &RopeRow::type);
    return row == ropeRows.end() ? nullptr : &*row;
}

// A rope dictionary of the file and the name to call it by in messages.
struct RopeDictionary {
    std::string key;
    const Json *value = nullptr; // an object; nullptr: none given
};

// Rope dictionaries by layer type hold objects (null for layers without rope) instead of numbers
// and lists.
bool isNested(const Json &dictionary) {
    return std::ranges::any_of(dictionary, [](const Json &value) { return value.is_object(); });
}

Result<RopeDictionary> ropeDictionary(const ModelConfig &config, const std::string &layerType) {
    // An empty rope_scaling counts as none, as in Python's `rope_scaling or rope_parameters`.
    RopeDictionary found;
    for (const char *key : {"rope_scaling", "rope_parameters"}) {
        const Json *value = valueOf(config.json(), key);
        if (value && !value->is_object())
            return wrongValue(config.fileName(), key, "an object", value);
        if (value && !value->empty() && !found.value)
            found = {key, value};
    }
    if (!found.value || !isNested(*found.value))
        return found;
    const auto entry = found.value->find(layerType);
    if (entry == found.value->end())
        return wrongValue(config.fileName(), found.key,
                          "an entry for layer type \"" + layerType + "\"", found.value);
    if (!entry->is_null() && !entry->is_object())
        return wrongValue(config.fileName(), found.key + "." + layerType, "an object", &*entry);
    return RopeDictionary{found.key + "." + layerType, entry->is_null() ? nullptr : &*entry};
}

Result<std::string> ropeType(const ModelConfig &config, const RopeDictionary &dictionary) {
    for (const char *key : {"rope_type", "type"}) {
        if (const Json *value = valueOf(*dictionary.value, key)) {
            if (!value->is_string())
                return wrongValue(config.fileName(), dictionary.key + "." + key, "a string", value);
            return value->get<std::string>();
        }
    }
    return std::string("default");
}

// Numbers and booleans (as 0 and 1) of the dictionary; lists and texts stay in the JSON for the
// type that reads them.
Result<std::map<std::string, double>> ropeNumbers(const ModelConfig &config,
                                                  const RopeDictionary &dictionary) {
    // Read as a number wherever a rope type reads them, so text there is a mistake.
    constexpr std::array numeric{"factor",
                                 "low_freq_factor",
                                 "high_freq_factor",
                                 "attention_factor",
                                 "beta_fast",
                                 "beta_slow",
                                 "mscale",
                                 "mscale_all_dim",
                                 "rope_theta",
                                 "original_max_position_embeddings",
                                 "partial_rotary_factor"};
    std::map<std::string, double> numbers;
    for (const auto &[key, value] : dictionary.value->items()) {
        if (value.is_boolean())
            numbers[key] = value.get<bool>() ? 1.0 : 0.0;
        else if (value.is_number())
            numbers[key] = value.get<double>();
        else if (!value.is_null() && std::ranges::find(numeric, key) != numeric.end())
            return wrongValue(config.fileName(), dictionary.key + "." + key, "a number", &value);
    }
    return numbers;
}

Result<void> checkRequired(const ModelConfig &config, const RopeDictionary &dictionary,
                           const std::string &type) {
    if (const RopeRow *row = ropeRow(type))
        for (const std::string_view key : row->required)
            if (!key.empty() && !dictionary.value->contains(key))
                return fail(ErrorCode::BadInput,
                            "key \"" + dictionary.key + "\": rope type \"" + type + "\" needs \"" +
                                std::string(key) + "\", which is missing",
                            Location{config.fileName()});
    return {};
}

} // namespace

double RopeParameters::number(const std::string &key, double fallback) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? fallback : found->second;
}

Result<ModelConfig> ModelConfig::load(const std::string &path) {
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    return parse(*text, path);
}

Result<ModelConfig> ModelConfig::parse(const std::string &text, const std::string &fileName) {
    auto json = parseJson(text, fileName);
    if (!json)
        return tl::unexpected(json.error());
    if (!json->is_object())
        return fail(ErrorCode::BadInput,
                    "expected an object of configuration keys, found " + jsonText(*json),
                    Location{fileName, 1, 1});
    ModelConfig config;
    config.m_json = std::make_shared<const Json>(std::move(*json));
    config.m_fileName = fileName;
    const auto type = config.text("model_type", "");
    if (!type)
        return tl::unexpected(type.error());
    config.m_modelType = *type;
    return config;
}

const nlohmann::json &ModelConfig::json() const {
    static const nlohmann::json empty = nlohmann::json::object();
    return m_json ? *m_json : empty;
}

bool ModelConfig::has(const std::string &key) const { return valueOf(json(), key) != nullptr; }

Result<std::int64_t> ModelConfig::integer(const std::string &key) const {
    const auto found = json().find(key);
    const Json *value = found == json().end() ? nullptr : &*found;
    const auto wrong = [&] {
        return wrongValue(m_fileName, key, "an integer from 0 to " + std::to_string(largestInteger),
                          value);
    };
    if (!value || !value->is_number_integer())
        return wrong();
    // Unsigned values above the range of a signed one would turn negative when read as such.
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{largestInteger})
        return wrong();
    const auto number = value->get<std::int64_t>();
    if (number < 0 || number > largestInteger)
        return wrong();
    return number;
}

Result<std::int64_t> ModelConfig::integer(const std::string &key, std::int64_t fallback) const {
    return has(key) ? integer(key) : Result<std::int64_t>(fallback);
}

Result<double> ModelConfig::real(const std::string &key, double fallback) const {
    const Json *value = valueOf(json(), key);
    if (!value)
        return fallback;
    if (!value->is_number())
        return wrongValue(m_fileName, key, "a number", value);
    return value->get<double>();
}

Result<bool> ModelConfig::flag(const std::string &key, bool fallback) const {
    const Json *value = valueOf(json(), key);
    if (!value)
        return fallback;
    if (!value->is_boolean())
        return wrongValue(m_fileName, key, "true or false", value);
    return value->get<bool>();
}

Result<std::string> ModelConfig::text(const std::string &key, const std::string &fallback) const {
    const Json *value = valueOf(json(), key);
    if (!value)
        return fallback;
    if (!value->is_string())
        return wrongValue(m_fileName, key, "a string", value);
    return value->get<std::string>();
}

Result<RopeParameters> ModelConfig::rope() const { return rope("full_attention"); }

Result<RopeParameters> ModelConfig::rope(const std::string &layerType, double defaultTheta) const {
    const auto dictionary = ropeDictionary(*this, layerType);
    if (!dictionary)
        return tl::unexpected(dictionary.error());
    RopeParameters rope;
    const auto theta = real("rope_theta", defaultTheta);
    if (!theta)
        return tl::unexpected(theta.error());
    if (dictionary->value) {
        const auto type = ropeType(*this, *dictionary);
        if (!type)
            return tl::unexpected(type.error());
        auto numbers = ropeNumbers(*this, *dictionary);
        if (!numbers)
            return tl::unexpected(numbers.error());
        if (const auto complete = checkRequired(*this, *dictionary, *type); !complete)
            return tl::unexpected(complete.error());
        rope.type = *type;
        rope.numbers = std::move(*numbers);
    }
    rope.theta = rope.number("rope_theta", *theta);
    rope.numbers.erase("rope_theta");
    if (!(std::isfinite(rope.theta) && rope.theta > 0))
        return fail(ErrorCode::BadInput,
                    "key \"rope_theta\": expected a number above 0, found " +
                        Json(rope.theta).dump(),
                    Location{m_fileName});
    return completed(std::move(rope));
}

Result<RopeParameters> ModelConfig::completed(RopeParameters rope) const {
    const auto partial = real("partial_rotary_factor", 1.0);
    const auto length = real("max_position_embeddings", 0.0);
    const auto original = real("original_max_position_embeddings", 0.0);
    for (const auto *value : {&partial, &length, &original})
        if (!*value)
            return tl::unexpected(value->error());
    if (has("partial_rotary_factor"))
        rope.numbers.emplace("partial_rotary_factor", *partial);
    const RopeRow *row = ropeRow(rope.type);
    if (!row || !row->readsOriginalLength)
        return rope;
    // A value beside the dictionary goes before the one inside (phi3 keeps it there).
    if (*original > 0)
        rope.numbers["original_max_position_embeddings"] = *original;
    else if (*length > 0)
        rope.numbers.emplace("original_max_position_embeddings", *length);
    const double trained = rope.number("original_max_position_embeddings", 0.0);
    if (row->infersFactor && *length > 0 && trained > 0)
        rope.numbers.emplace("factor", *length / trained);
    return rope;
}

Result<DType> ModelConfig::dtype() const {
    for (const char *key : {"dtype", "torch_dtype"}) {
        const Json *value = valueOf(json(), key);
        if (!value)
            continue;
        const auto dtype =
            value->is_string() ? dtypeFromTorch(value->get<std::string>()) : std::nullopt;
        constexpr std::array floating{DType::F64, DType::F32, DType::F16, DType::BF16};
        if (!dtype || std::ranges::find(floating, *dtype) == floating.end())
            return wrongValue(m_fileName, key, "float32, bfloat16, float16 or float64", value);
        return *dtype;
    }
    return DType::F32;
}

// null counts: it is an empty plan.
const Json *ModelConfig::plan(const char *key) const {
    const auto found = json().find(key);
    return found == json().end() ? nullptr : &*found;
}

const Json *ModelConfig::tpPlan() const { return plan("base_model_tp_plan"); }
const Json *ModelConfig::epPlan() const { return plan("base_model_ep_plan"); }

} // namespace tpscope
