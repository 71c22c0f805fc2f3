// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lint/lint.h"

// The recorded models of tests/data as descriptions, and plans as text. Shared by the tests of shard and lint.
namespace tpscope::recorded {

inline std::filesystem::path dataDir() { return std::filesystem::path(TPSCOPE_TEST_DATA); }

inline nlohmann::json readJson(const std::filesystem::path &path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
}

struct Subject {
    ModelDescription model;
    BuiltinPlan builtin;
};

// A config as given, described; ends the test program where that fails.
inline Subject describeConfig(const nlohmann::json &config, const std::string &fileName) {
    const auto parsed = ModelConfig::parse(config.dump(), fileName);
    if (!parsed)
        qFatal("%s", parsed.error().text().c_str());
    auto model = describe(*parsed);
    if (!model)
        qFatal("%s", model.error().text().c_str());
    auto builtin = loadBuiltinPlan(model->modelType);
    if (!builtin)
        qFatal("%s", builtin.error().text().c_str());
    return {std::move(*model), std::move(*builtin)};
}

// The recorded model `name` with `changes` to its config; nothing: it is not among the data.
inline std::optional<Subject> load(const std::string &name,
                                   const nlohmann::json &changes = nlohmann::json::object()) {
    const std::filesystem::path path = dataDir() / "fixtures" / "models" / name / "config.json";
    if (!std::filesystem::exists(path))
        return std::nullopt;
    nlohmann::json config = readJson(path);
    config.update(changes);
    return describeConfig(config, "config.json");
}

inline PlanChoice choiceOf(const std::string &text) {
    auto document = parsePlan(text, "plan.yaml");
    if (!document)
        qFatal("%s", document.error().text().c_str());
    PlanChoice choice;
    choice.kind = PlanChoice::Kind::Document;
    choice.document = std::move(*document);
    return choice;
}

// A recorded plan: a mapping, "auto" or null. extra: other arguments of DistributedConfig, as a plan file or the command line gives them.
inline PlanChoice choiceOf(const nlohmann::json &plan, const nlohmann::json &extra) {
    nlohmann::json document = nlohmann::json::object();
    for (const char *key : {"ep_plan", "enable_expert_parallel"})
        if (extra.contains(key))
            document[key] = extra[key];
    PlanChoice choice;
    if (!document.empty() || (!plan.is_null() && plan != "auto")) {
        document["tp_plan"] = plan;
        choice = choiceOf(document.dump());
    } else if (plan.is_null() && !extra.contains("ep_size")) {
        choice.kind = PlanChoice::Kind::None;
    }
    if (extra.contains("ep_size"))
        choice.ep = extra["ep_size"].get<int>();
    return choice;
}

// What a recorded case changes in the config.
inline nlohmann::json changesOf(const nlohmann::json &extra) {
    nlohmann::json changes = extra.value("config", nlohmann::json::object());
    if (extra.contains("config_plan"))
        changes["base_model_tp_plan"] = extra["config_plan"];
    if (extra.contains("config_ep_plan"))
        changes["base_model_ep_plan"] = extra["config_ep_plan"];
    return changes;
}

inline LintReport lintText(const Subject &subject, const std::string &text, int tp, const LintOptions &options = {}) {
    return lint(subject.model, choiceOf(text), &subject.builtin, tp, options);
}

} // namespace tpscope::recorded
