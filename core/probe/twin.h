// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/plandocument.h"
#include "run/oracle.h"

// A tiny twin of any causal language model class that a transformers has, at tp N against one process.
namespace tpscope {

struct TwinRequest {
    OracleRequest oracle;  // logits and gradients are both asked; config.inputIds may be empty, config.hooks is not read
    std::optional<HookMode> hooks;               // not set: what the library does itself
    std::optional<std::filesystem::path> config; // config.json of the model; not set: config.modelArgument names a
                                                 // model type or class of the library
    std::optional<PlanDocument> plan;            // the document of config.planText, whose lines findings point at
};

// A rule of the plan that a finding belongs to.
struct TwinRule {
    std::string key;
    std::string style;
    SourceSpan span; // line 0: inherited from the library
};

struct TwinCheck {
    enum class Verdict { Right, Wrong, Failed, Breaks, NotChecked };
    std::string name; // "load", "logits", "gradients", "save", "hooks", in this order
    Verdict verdict = Verdict::NotChecked;
    std::string message;            // a sentence for people
    std::vector<std::string> names; // of parameters or modules, a layer's number as *
    std::vector<TwinRule> rules;    // that act on them
};
std::string_view name(TwinCheck::Verdict verdict); // "right", "wrong", "failed", "breaks", "not checked"

struct TwinReport {
    OracleReport oracle; // its verdict is failed also where the weights or a saved checkpoint are wrong
    std::string modelType;
    std::string modelClass;
    std::int64_t parameters = 0;
    int layers = 0;
    nlohmann::json changes; // {config key: [of the model, of its twin]}
    std::vector<TwinCheck> checks;
};

// Makes the twin, saves it in a temporary folder, and loads, computes, trains, saves and reloads it at config.tp.
// Some 15 s to a minute; blocking; measured throughout. Errors: as runTransformersOracle(); BadInput also when the
// library has no such class, RunFailed when no twin of it computes in one process.
Result<TwinReport> examineTwin(const TwinRequest &request, EventSink &sink, std::stop_token stop);

// The report of what the probe left, complete or failed.
Result<TwinReport> twinReportOf(const nlohmann::json &result, const TwinRequest &request);

nlohmann::json toJson(const TwinReport &report, const TwinRequest &request);

} // namespace tpscope
