// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/family.h"
#include "model/modeldescription.h"
#include "plan/parallelstyle.h"
#include "plan/plandocument.h"

namespace tpscope {

// The built-in plan of a family as upstream keeps it in two places; from plans/<model_type>.yaml.
struct BuiltinPlan {
    std::string modelType;
    std::string source;                // "transformers 5.24.0"
    std::string baseModelPrefix;       // "model": what configRules keys lack
    std::vector<PlanRule> configRules; // base_model_tp_plan, keys without the base model's prefix
    std::vector<PlanRule> classRules;  // _tp_plan of the class: lm_head
    std::vector<PlanRule> configEpRules;
};
// Errors: NotFound (names the ones there are), BadInput with line and column.
Result<BuiltinPlan> loadBuiltinPlan(const std::string &modelType);
Result<BuiltinPlan> parseBuiltinPlan(const std::string &text, const std::string &fileName);
std::vector<std::string> builtinPlanNames(); // sorted

// What the user chose: --plan auto | none | FILE.
struct PlanChoice {
    enum class Kind { Auto, None, Document };
    Kind kind = Kind::Auto;
    std::optional<PlanDocument> document;
    std::optional<int> ep; // --ep: ranks that share the experts; nothing: what the document says, else 1
    static Result<PlanChoice> parse(const std::string &argument); // "auto", "none" or a path
};

// One effective rule after merging, with everything it applies to.
struct EffectiveRule {
    PlanRule rule;
    const ParallelStyle *style = nullptr;   // nullptr: unknown
    std::vector<ModuleIndex> modules;       // whose forward it wraps
    std::vector<std::string> parameters;    // full names of the parameters that take it
    bool matches = false;                   // its key names a module or parameter of the model
    bool expert = false;             // of the ep_plan
    bool overridesInherited = false; // its key repeats one of the inherited plan: matching nothing then only warns
    std::optional<std::size_t> documentIndex; // into PlanDocument::rules, or epRules; of duplicates the last, which wins
    // Accepted and then not applied: a tp rule on a name, or below one, that an ep rule names; without ep rules the key ""
    // (the root module), an accident of upstream's filter. modules and parameters are empty then.
    bool dropped = false;
};

// The plan upstream would apply, resolved against a model. Never an error: what is wrong stands in the fields and lint
// tells it. Source: transformers 5.24 distributed/mixin.py _resolve_parallel_plans.
struct ResolvedPlan {
    int tp = 1;
    std::string baseMode;                       // "builtin", "none", "config"
    // Ranks that share the experts. Upstream's groups of ep and of tp ranks are the same ranks unless FSDP is used, so
    // an ep above 1 that is not tp is refused.
    int ep = 1;
    // In upstream's dict order: the tp rules, then, with ep above 1, the ep rules.
    std::vector<EffectiveRule> rules;
    // With ep above 1: some ep rule dispatches tokens. Otherwise upstream applies no ep rule at all, but still drops the
    // tp rules they name.
    bool appliesEpPlan = false;
    std::vector<std::string> cutTwice;          // full names of parameters that the tp rule and the ep rule both shard
    std::vector<std::vector<std::size_t>> duplicates; // groups of PlanDocument::rules indices with one key
    std::vector<std::vector<std::size_t>> epDuplicates; // of PlanDocument::epRules
    std::vector<int> moduleRule;                // by ModuleIndex: index into rules, -1 none
    std::unordered_map<std::string, int> parameterRule; // full parameter name -> index into rules (tied ones too)
    bool emptyMapping = false;                  // tp_plan: {} (refused upstream at tp > 1)
    bool noPlan = false;                        // nothing at all to apply
    std::vector<PlanRule> epRules;              // merged like the tp rules; applied only with expert parallelism
    std::vector<PlanRule> epUnmatched;          // the file's ep rules whose keys match nothing: upstream refuses them
    // base: none. Inherited rules whose keys the file does not name; upstream has no such form, so a writer cancels
    // them (see planwriter.h).
    std::vector<PlanRule> leftOut;
    // The config's base_model_tp_plan or base_model_ep_plan is no mapping, so the model cannot be built. "" fine.
    std::string configPlanProblem;

    const EffectiveRule *ruleOfModule(ModuleIndex index) const;
    const EffectiveRule *ruleOfParameter(const std::string &fullName) const;
    // The style that acts on a module or parameter; nullptr when none or unknown.
    const ParallelStyle *styleOfModule(ModuleIndex index) const;
    const ParallelStyle *styleOfParameter(const std::string &fullName) const;
    // On more than one rank, each has only some of the module's experts, and the module's num_experts says so: a style
    // deals out one of its parameters.
    bool dealsExperts(const Module &module) const;
};

// An ep rule takes this name, and all below it, out of the tp plan. Source: transformers 5.24 _resolve_parallel_plans.
bool namedByEpRules(const ResolvedPlan &plan, const std::string &key);

// Merges (DESIGN "Plan file and merging") and resolves. builtin may be nullptr: the family has none.
ResolvedPlan resolvePlan(const ModelDescription &model, const PlanChoice &choice, const BuiltinPlan *builtin, int tp);

} // namespace tpscope
