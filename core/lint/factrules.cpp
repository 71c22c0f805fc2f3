// SPDX-License-Identifier: GPL-3.0-or-later
// What is worth knowing beside right and wrong: hooks that break the graph, whole heads, uneven shards, little sharding.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/text.h"
#include "lint/fixes.h"

namespace tpscope {
namespace {

void graphBreaks(const LintContext &context, Findings &findings) {
    if (context.options.hooks != "module-backward" || context.tp <= 1)
        return;
    std::vector<ModuleIndex> modules;
    for (std::size_t i = 0; i < context.model.tree.modules.size(); ++i) {
        const ParallelStyle *style = context.plan.styleOfModule(ModuleIndex(i));
        if (style && style->hooksParameters() && !context.model.tree.modules[i].forwardProgram.empty())
            modules.push_back(ModuleIndex(i));
    }
    if (modules.empty())
        return;
    Diagnostic &finding = findings.add(code::hooksBreakGraph, "");
    addModules(context, finding, modules);
    std::vector<std::string> names;
    for (const std::string &name : finding.modules)
        names.push_back(inTicks(name));
    finding.message = "module-backward hooks break the graph of torch.compile at " + list(names) + " (" +
                      std::to_string(modules.size()) + " modules), also in inference";
    finding.fix = Fix{"use post-accumulate-grad hooks", {}};
    blame(context, finding, modules);
}

// The parameter that makes the logits, whole on each rank without a rule.
void wholeHead(const LintContext &context, Findings &findings) {
    if (context.tp <= 1 || context.plan.noPlan)
        return;
    for (const ParameterShard &shard : context.shards.parameters) {
        const std::string module = shard.name.substr(0, shard.name.rfind('.'));
        const Module *owner = context.model.tree.find(module);
        const bool makesLogits = owner && owner->isLinear && shard.globalShape.size() == 2 &&
                                 shard.globalShape.front() == context.model.dims.vocab && owner->parent &&
                                 owner->parent->value == 0;
        if (!makesLogits || !shard.rule.empty())
            continue;
        Diagnostic &finding = findings.add(
            code::wholeHead, "no rule shards " + inTicks(module) + ": every rank holds all " +
                                 std::to_string(shard.globalShape[0]) + " x " + std::to_string(shard.globalShape[1]) +
                                 " of it, " + formatBytes(static_cast<std::uint64_t>(shard.bytes.front())));
        finding.modules = {module};
        if (context.builtin)
            for (const PlanRule &rule : context.builtin->classRules)
                if (rule.key == module)
                    finding.fix = fixOf(context, {{rule.key, rule.style}});
    }
}

// The default rule under the embedding's own name, alone or with the output head that is tied to it.
std::optional<Fix> embeddingFix(const LintContext &context, const std::string &module) {
    const std::vector<RuleChange> alone = {{genericName(module), vocabularyStyle()}};
    if (!context.flow) {
        // Nobody knows what is tied to what, unless the config says.
        const auto tied = context.model.config.flag("tie_word_embeddings", true);
        return tied && !*tied ? std::optional(fixOf(context, alone)) : std::nullopt;
    }
    std::vector<std::vector<RuleChange>> candidates = {alone};
    if (context.builtin)
        for (const PlanRule &rule : context.builtin->classRules)
            candidates.push_back({alone.front(), {rule.key, rule.style}});
    for (const std::vector<RuleChange> &changes : candidates) {
        const ResolvedPlan plan = changedPlan(context.model, context.plan, changes);
        const FlowResult result = LayoutFlow(context.model, plan).run(context.tp, context.inference);
        if (result.right())
            return fixOf(context, changes);
    }
    return std::nullopt;
}

// Upstream's default rule for embeddings knows one name. Tables of the vocabulary under another name, that no rule cuts.
void wholeEmbedding(const LintContext &context, Findings &findings) {
    constexpr std::string_view known = "embed_tokens";
    const std::int64_t vocab = context.model.config.integer("vocab_size", 0).value_or(0);
    const bool applies = std::ranges::any_of(context.model.tree.modules,
                                             [&](const Module &module) { return module.localName == known; });
    if (context.tp <= 1 || context.plan.noPlan || vocab <= 0 || applies)
        return;
    std::vector<const ParameterShard *> tables;
    for (const ParameterShard &shard : context.shards.parameters)
        if (shard.globalShape.size() == 2 && shard.globalShape.front() == vocab &&
            genericName(shard.name).find('*') == std::string::npos) // a layer's may be as long by chance
            tables.push_back(&shard);
    // A table right below the root makes logits, where there is another.
    const auto atTheTop = [](const ParameterShard *shard) { return std::ranges::count(shard->name, '.') < 2; };
    if (std::ranges::any_of(tables, [&](const ParameterShard *shard) { return !atTheTop(shard); }))
        std::erase_if(tables, atTheTop);
    std::erase_if(tables, [](const ParameterShard *shard) { return !shard->rule.empty(); });
    for (const ParameterShard *table : tables) {
        const std::string module = table->name.substr(0, table->name.rfind('.'));
        Diagnostic &finding = findings.add(
            code::wholeEmbedding, "the default rule for embeddings looks for `" + std::string(known) +
                                      "` and matches nothing in " + context.model.className + "; nearest: " +
                                      inTicks(module) + ", which stays whole on every rank, " +
                                      formatBytes(static_cast<std::uint64_t>(table->bytes.front())));
        finding.modules = {module};
        finding.fix = embeddingFix(context, module);
    }
}

// One finding a size: the parameters that have it share the reason.
void unevenShards(const LintContext &context, Findings &findings) {
    if (context.tp <= 1)
        return;
    std::vector<std::pair<std::int64_t, std::vector<const ParameterShard *>>> bySize;
    for (const ParameterShard &shard : context.shards.parameters) {
        const auto dim = static_cast<std::size_t>(std::max(shard.dim, 0));
        if (shard.dim < 0 || shard.localShapes.front()[dim] == shard.localShapes.back()[dim])
            continue;
        auto known = std::ranges::find(bySize, shard.globalShape[dim], [](const auto &entry) { return entry.first; });
        if (known == bySize.end())
            known = bySize.insert(bySize.end(), {shard.globalShape[dim], {}});
        known->second.push_back(&shard);
    }
    for (const auto &[size, shards] : bySize) {
        constexpr std::size_t shown = 8;
        const auto dim = static_cast<std::size_t>(shards.front()->dim);
        std::string sizes;
        for (std::size_t r = 0; r < std::min(shards.front()->localShapes.size(), shown); ++r)
            sizes += (r ? " + " : "") + std::to_string(shards.front()->localShapes[r][dim]);
        Diagnostic &finding = findings.add(code::uneven, "");
        std::vector<std::string> names;
        for (const ParameterShard *shard : shards) {
            const std::string module = genericName(shard->name.substr(0, shard->name.rfind('.')));
            if (std::ranges::find(finding.modules, module) == finding.modules.end()) {
                finding.modules.push_back(module);
                names.push_back(inTicks(module));
            }
        }
        finding.message = std::to_string(size) + " over " + std::to_string(context.tp) + " ranks is uneven, " + sizes +
                          (shards.front()->localShapes.size() > shown ? " + ..." : "") + ": " + list(names);
        if (const EffectiveRule *rule = context.plan.ruleOfParameter(shards.front()->name))
            blame(finding, *rule);
    }
}

// The placement claims other channels than the ranks hold.
void permutedSave(const LintContext &context, Findings &findings) {
    std::unordered_set<std::string> told;
    for (const ParameterShard &shard : context.shards.parameters) {
        const std::size_t dot = shard.name.rfind('.');
        const Module *module = context.model.tree.find(dot == std::string::npos ? "" : shard.name.substr(0, dot));
        const Parameter *parameter = module ? module->parameter(shard.name.substr(dot + 1)) : nullptr;
        const EffectiveRule *rule = context.plan.ruleOfParameter(shard.name);
        if (shard.dim < 0 || !parameter || !rule || !told.insert(genericName(shard.name)).second ||
            groupsHeld(*parameter, shard.placement) == shard.placement.splitFactor)
            continue;
        Diagnostic &finding = findings.add(
            code::permutedSave, inTicks(genericName(shard.name)) + " is stored in parts, each of which loading cuts by "
                                    "itself, but " + inTicks(rule->rule.style) +
                                    " says otherwise: the forward is right, a saved checkpoint would have permuted channels");
        blame(finding, *rule);
        finding.modules = {genericName(module->name)};
    }
}

// How much of the layers' weights is really sharded, where much is not.
void shareOfLayers(const LintContext &context, Findings &findings) {
    constexpr double enough = 0.9;
    if (context.tp <= 1 || context.plan.noPlan)
        return;
    std::int64_t total = 0, sharded = 0;
    std::map<std::string, std::int64_t> whole;
    for (const ParameterShard &shard : context.shards.parameters) {
        const std::string generic = genericName(shard.name);
        if (generic.find('*') == std::string::npos)
            continue;
        const std::int64_t bytes =
            elementCount(shard.globalShape) * static_cast<std::int64_t>(elementSize(shard.dtype));
        total += bytes;
        if (shard.dim >= 0)
            sharded += bytes;
        else
            whole[generic.substr(0, generic.rfind('.'))] += bytes;
    }
    if (total == 0 || static_cast<double>(sharded) >= enough * static_cast<double>(total))
        return;
    std::vector<std::pair<std::string, std::int64_t>> largest(whole.begin(), whole.end());
    std::erase_if(largest, [&](const auto &entry) { return entry.second * 100 < total; });
    std::ranges::stable_sort(largest, [](const auto &a, const auto &b) { return a.second > b.second; });
    largest.resize(std::min<std::size_t>(largest.size(), 4));
    std::vector<std::string> names;
    Diagnostic &finding = findings.add(code::mostlyWhole, "");
    for (const auto &[name, bytes] : largest) {
        names.push_back(inTicks(name) + " (" + formatBytes(static_cast<std::uint64_t>(bytes)) + ")");
        finding.modules.push_back(name);
    }
    const auto percent = static_cast<int>(100.0 * static_cast<double>(sharded) / static_cast<double>(total));
    finding.message = std::to_string(percent) + " % of the layers' weights are sharded; whole on every rank: " + list(names);
}

} // namespace

void tellFacts(const LintContext &context, Findings &findings) {
    graphBreaks(context, findings);
    wholeHead(context, findings);
    wholeEmbedding(context, findings);
    unevenShards(context, findings);
    permutedSave(context, findings);
    shareOfLayers(context, findings);
}

} // namespace tpscope
