// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "graph/graphcapture.h"
#include "lint/lint.h"
#include "model/modelsource.h"
#include "plan/resolvedplan.h"

// What a front end does first: open a model once, then analyse plan texts against it as often as they change.
namespace tpscope {

// A model with its built-in plan. Immutable and shared: analyses of several plans read one workspace.
struct Workspace {
    ModelSource source;
    ModelDescription model;
    // The same model with the wrappers module-backward meets (captureUpstream): transformers 5.21's unless a version was
    // asked for. Same tree and indices as model.
    ModelDescription legacyModel;
    std::optional<BuiltinPlan> builtin;
    Upstream upstream;
    Upstream legacyUpstream; // what legacyModel was described with
    const Upstream &upstreamFor(HookMode hooks) const {
        return hooks == HookMode::ModuleBackward ? legacyUpstream : upstream;
    }
    const ModelDescription &modelFor(HookMode hooks) const {
        return hooks == HookMode::ModuleBackward ? legacyModel : model;
    }
    const BuiltinPlan *builtinOrNull() const { return builtin ? &*builtin : nullptr; }
};

// By family description, or, for a model type nobody described, from its checkpoint's tensor names.
// upstream: what the user named, if anything.
// Errors: NotFound, BadInput, Unsupported (unknown model_type and no weights to take names from).
Result<std::shared_ptr<const Workspace>> openWorkspace(const std::string &modelArgument,
                                                       const std::optional<Upstream> &upstream = std::nullopt);

// The tensor-parallel size a plan is looked at with: asked for, else the plan's tp_size, else choice.ep, else 2 (1 without
// a plan). Errors: Usage for sizes outside 1..4096, and for more than 1 without a plan.
Result<int> effectiveTp(const PlanChoice &choice, std::optional<int> asked);

struct AnalysisOptions {
    LintOptions lint;
    HookMode hooks = HookMode::PostAccumulateGrad;
    CaptureOptions capture;
};

// Everything a view shows about one plan text; values only. Which parts are set: plan and later ones only when the
// text could be read; captures only when the outcome lets the model run and its flow is known.
struct PlanAnalysis {
    std::shared_ptr<const Workspace> workspace;
    std::optional<Error> unreadable; // syntax of the text
    PlanChoice choice;
    int tp = 1;
    ResolvedPlan plan;
    LintReport lint;
    ShardLayout shards;
    std::optional<GraphCapture> withModuleBackward; // what transformers <= 5.21 makes of it
    std::optional<GraphCapture> withChosenHooks;    // options.hooks
};

// Pure, some milliseconds; called from a worker thread while somebody types.
PlanAnalysis analyze(std::shared_ptr<const Workspace> workspace, const PlanChoice &choice, int tp,
                     const AnalysisOptions &options);

} // namespace tpscope
