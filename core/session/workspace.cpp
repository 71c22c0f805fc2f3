// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/workspace.h"

#include "arch/tensornames.h"
#include "model/safetensors.h"
#include "plan/catalogue.h"

namespace tpscope {
namespace {

// Counts that make the description itself long: each layer has its modules, each head its place on the ranks.
Result<void> checkCounts(const ModelConfig &config) {
    constexpr std::pair<const char *, std::int64_t> limits[] = {
        {"num_hidden_layers", 10'000}, {"num_attention_heads", 1 << 16}, {"num_key_value_heads", 1 << 16}};
    for (const auto &[key, most] : limits) {
        const auto count = config.integer(key, 0);
        if (count && *count > most)
            return fail(ErrorCode::BadInput,
                        std::string("key \"") + key + "\": expected at most " + std::to_string(most) + ", found " +
                            std::to_string(*count),
                        Location{config.fileName()});
    }
    return {};
}

// Bytes are counted in 64 bits, and summed over the ranks.
Result<void> checkSizes(const ModelDescription &model) {
    constexpr double mostElements = 1e15;
    double elements = 0.0;
    for (const Module &module : model.tree.modules)
        for (const Parameter &parameter : module.parameters) {
            double own = 1.0;
            for (const std::int64_t extent : parameter.shape)
                own *= static_cast<double>(extent);
            if ((elements += own) > mostElements)
                return fail(ErrorCode::BadInput,
                            "the sizes in the configuration make a model of more than 10^15 parameters, at " +
                                module.name + "." + parameter.name,
                            Location{model.config.fileName()});
        }
    return {};
}

Result<ModelDescription> describeModel(const ModelSource &source, const ModelConfig &config,
                                       const Upstream &upstream) {
    if (isDescribed(config) || !source.hasWeights()) {
        if (const auto counts = checkCounts(config); !counts)
            return tl::unexpected(counts.error());
        auto model = describe(config, upstream);
        if (!model)
            return model;
        if (const auto sizes = checkSizes(*model); !sizes)
            return tl::unexpected(sizes.error());
        return model;
    }
    const auto checkpoint = Checkpoint::open(source.weightFiles);
    if (!checkpoint)
        return tl::unexpected(checkpoint.error());
    return describeFromTensorNames(config, *checkpoint);
}

std::optional<GraphCapture> captured(const PlanAnalysis &analysis, HookMode hooks, const CaptureOptions &options) {
    auto capture = captureGraphs(analysis.workspace->modelFor(hooks), analysis.plan, hooks, options);
    return capture ? std::optional(std::move(*capture)) : std::nullopt;
}

} // namespace

Result<std::shared_ptr<const Workspace>> openWorkspace(const std::string &modelArgument,
                                                       const std::optional<Upstream> &upstream) {
    auto source = findModel(modelArgument);
    if (!source)
        return tl::unexpected(source.error());
    const auto config = ModelConfig::load(source->configPath.string());
    if (!config)
        return tl::unexpected(config.error());
    auto model = describeModel(*source, *config, upstream.value_or(Upstream{}));
    if (!model)
        return tl::unexpected(model.error());
    const Upstream legacyUpstream = captureUpstream(HookMode::ModuleBackward, upstream);
    auto legacy = describeModel(*source, *config, legacyUpstream);
    if (!legacy)
        return tl::unexpected(legacy.error());
    auto workspace = std::make_shared<Workspace>(Workspace{std::move(*source), std::move(*model), std::move(*legacy),
                                                           std::nullopt, upstream.value_or(Upstream{}), legacyUpstream});
    if (auto builtin = catalogueEntryOf(*config).map([](CatalogueEntry &&entry) { return std::move(entry.plan); })) {
        // Tensor names do not tell which part is the base model.
        for (ModelDescription *described : {&workspace->model, &workspace->legacyModel})
            if (!described->flowKnown())
                described->baseModelPrefix = builtin->baseModelPrefix;
        workspace->builtin = std::move(*builtin);
    } else if (builtin.error().code != ErrorCode::NotFound)
        return tl::unexpected(builtin.error());
    return workspace;
}

Result<int> effectiveTp(const PlanChoice &choice, std::optional<int> asked) {
    int tp = choice.kind == PlanChoice::Kind::None ? 1 : 2;
    if (choice.ep && (*choice.ep < 1 || *choice.ep > 4096))
        return fail(ErrorCode::Usage, "--ep " + std::to_string(*choice.ep) + ": expected a size from 1 to 4096");
    if (const int ep = choice.ep.value_or(1); ep > 1) // the experts' ranks are the tp ranks
        tp = ep;
    if (choice.document && choice.document->tpSize)
        tp = *choice.document->tpSize;
    if (asked)
        tp = *asked;
    if (tp < 1 || tp > 4096)
        return fail(ErrorCode::Usage, "--tp " + std::to_string(tp) + ": expected a size from 1 to 4096");
    if (choice.kind == PlanChoice::Kind::None && tp != 1)
        return fail(ErrorCode::Usage, "--plan none shards nothing and needs --tp 1 (transformers refuses a size above 1 "
                                      "without a plan); --plan auto is the built-in plan");
    return tp;
}

PlanAnalysis analyze(std::shared_ptr<const Workspace> workspace, const PlanChoice &choice, int tp,
                     const AnalysisOptions &options) {
    PlanAnalysis analysis;
    analysis.workspace = std::move(workspace);
    analysis.choice = choice;
    analysis.tp = tp;
    const ModelDescription &model = analysis.workspace->model;
    const BuiltinPlan *builtin = analysis.workspace->builtinOrNull();
    analysis.plan = resolvePlan(model, choice, builtin, tp);
    analysis.lint = lint(model, choice, builtin, tp, options.lint);
    analysis.shards = shardLayout(model, analysis.plan);
    const Outcome outcome = analysis.lint.outcome;
    if (outcome == Outcome::Rejected || outcome == Outcome::ForwardError || outcome == Outcome::NotChecked)
        return analysis;
    analysis.withModuleBackward = captured(analysis, HookMode::ModuleBackward, options.capture);
    analysis.withChosenHooks = captured(analysis, options.hooks, options.capture);
    return analysis;
}

} // namespace tpscope
