// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "model/dtype.h"

namespace tpscope {

// Rotary embedding as transformers 5 spells it (rope_parameters); a transformers-4 config's
// rope_theta and rope_scaling are read into the same fields. Source: transformers 5.24
// modeling_rope_utils.py.
struct RopeParameters {
    std::string type = "default"; // default | linear | dynamic | llama3 | yarn | ...
    double theta = 10000.0;
    // factor, low_freq_factor, beta_fast, original_max_position_embeddings ...; true and false as 1
    // and 0; what upstream infers is filled in.
    std::map<std::string, double> numbers;
    double number(const std::string &key, double fallback) const;
};

// A config.json with typed, checked access. Every getter names the key and file when a value is
// missing or has the wrong type. Values are not copied into fields: a family reads what it needs.
class ModelConfig {
public:
    static Result<ModelConfig> load(const std::string &path);
    static Result<ModelConfig> parse(const std::string &text, const std::string &fileName);

    const std::string &fileName() const { return m_fileName; }
    const std::string &modelType() const { return m_modelType; } // "" when the key is missing
    const nlohmann::json &json() const;     // an object; include <nlohmann/json.hpp> to read it
    bool has(const std::string &key) const; // present and not null

    Result<std::int64_t> integer(const std::string &key) const; // required, 0..2^31
    // Absent or null: fallback.
    Result<std::int64_t> integer(const std::string &key, std::int64_t fallback) const;
    Result<double> real(const std::string &key, double fallback) const;
    Result<bool> flag(const std::string &key, bool fallback) const;
    Result<std::string> text(const std::string &key, const std::string &fallback) const;
    // Of full_attention layers where the file gives them by layer type.
    Result<RopeParameters> rope() const;
    // Of one layer type; a file without such a distinction gives the same for all. defaultTheta:
    // the family's own, for a file that names none. Errors: BadInput, also where the rope type
    // needs a key that is missing.
    Result<RopeParameters> rope(const std::string &layerType, double defaultTheta = 10000.0) const;
    // dtype | torch_dtype; float32 when neither is given.
    Result<DType> dtype() const;
    // base_model_tp_plan of the file, if it has one (any JSON value: the plan reader judges it).
    const nlohmann::json *tpPlan() const;
    const nlohmann::json *epPlan() const; // base_model_ep_plan, likewise

private:
    const nlohmann::json *plan(const char *key) const;
    Result<RopeParameters> completed(RopeParameters rope) const;

    // Shared: a description is copied with its config. Behind a pointer: json.hpp costs seconds in
    // every file that sees it.
    std::shared_ptr<const nlohmann::json> m_json;
    std::string m_fileName;
    std::string m_modelType;
};

} // namespace tpscope
