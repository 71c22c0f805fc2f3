// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/span.h"
#include "plan/resolvedplan.h"
#include "shard/shardlayout.h"

namespace tpscope {

struct DeploymentTarget; // lint/target.h

enum class Severity { Error, Warning, Info };
std::string_view name(Severity severity); // "error", ...

// A repair that can be applied: edits of the plan's text (empty: advice only, title says it).
struct Fix {
    std::string title;
    std::vector<TextEdit> edits; // non-overlapping, offsets of the unedited text
};

struct Diagnostic {
    std::string code; // "TP101": stable; core/lint/codes.h lists them
    Severity severity = Severity::Error;
    bool trainingOnly = false; // Et of CASES.md: an error when training, told as such otherwise
    std::string message;       // one sentence: what, why, with both sides
    SourceSpan span;           // of the rule; line 0 when the rule is inherited or there is none
    std::string rule;          // key
    std::vector<std::string> modules;
    std::optional<Fix> fix;
};

// What transformers does with the plan (DESIGN "Outcome").
enum class Outcome { Rejected, ForwardError, WrongLogits, WrongGradients, Ok, NotChecked };
std::string_view name(Outcome outcome); // "rejected", "forward-error", ...
enum class Basis { Rule, Executed };

struct LintOptions {
    bool train = false;
    int microSteps = 1;
    std::string attention;          // "" the model's default; "eager", "sdpa"
    std::int64_t promptTokens = 12; // decides which masks are built
    bool paddedPrompts = false;     // of a batch, on the left: a mask is built whatever their length
    std::string hooks = "post-accumulate-grad";
    std::vector<std::string> trainable; // patterns; empty: everything
    bool clipsGradients = false;        // by their norm, over all trained parameters together
    std::string device;                 // torch's name of the accelerator: "mps", "cuda"; "": CPU
    std::shared_ptr<const DeploymentTarget> target; // where else the plan is to run; nullptr: nowhere
    Upstream upstream;
    std::string configPlanName;
};

struct LintReport {
    Outcome outcome = Outcome::NotChecked;
    Basis basis = Basis::Rule;
    std::string upstream;
    std::string attention;
    std::string dtype;
    std::vector<Diagnostic> diagnostics; // errors first, then by line
    std::vector<int> validTpSizes;       // of 1..64: outcome ok there
    double shardedFraction = 0.0;
    std::vector<std::int64_t> bytesPerRank;
    // Full names of the trained parameters whose gradients would be wrong after a training step; empty where the
    // training forward or backward raises, or inference already fails.
    std::vector<std::string> wrongParameters;
    int errors() const;
    int warnings() const;
};

// Pure: same inputs, same report. A bad plan is diagnostics, never an exception. choice and builtin are needed to
// resolve the plan again for other tp sizes.
LintReport lint(const ModelDescription &model, const PlanChoice &choice, const BuiltinPlan *builtin, int tp,
                const LintOptions &options = {});

} // namespace tpscope
