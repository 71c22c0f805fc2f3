// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/resolvedplan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/text.h"

namespace tpscope {
namespace {

// A Python dict of rules: a key set again keeps its place and takes the new value.
class RuleMap {
public:
    // Returns true when the key was there before.
    bool set(EffectiveRule rule) {
        const auto [found, inserted] = m_index.try_emplace(rule.rule.key, m_rules.size());
        if (inserted)
            m_rules.push_back(std::move(rule));
        else
            m_rules[found->second] = std::move(rule);
        return !inserted;
    }
    const EffectiveRule *find(const std::string &key) const {
        const auto found = m_index.find(key);
        return found == m_index.end() ? nullptr : &m_rules[found->second];
    }
    bool empty() const { return m_rules.empty(); }
    std::vector<EffectiveRule> take() { return std::move(m_rules); }

private:
    std::vector<EffectiveRule> m_rules;
    std::unordered_map<std::string, std::size_t> m_index;
};

EffectiveRule effective(PlanRule rule) {
    EffectiveRule out;
    out.style = rule.styleIsText ? findStyle(rule.style) : nullptr;
    out.rule = std::move(rule);
    return out;
}

std::string joined(const std::string &prefix, const std::string &name) {
    return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

// The generic names of all modules and parameters, tied ones too: plans are resolved before weights are tied (upstream
// builds the model under no_tie_weights). The root module's name is "".
std::unordered_set<std::string> namesOf(const ModuleTree &tree) {
    std::unordered_set<std::string> names;
    for (const Module &module : tree.modules) {
        names.insert(genericName(module.name));
        for (const Parameter &parameter : module.parameters)
            names.insert(genericName(joined(module.name, parameter.name)));
    }
    return names;
}

std::string scalarOf(const nlohmann::json &value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// The rules of a config.json's base_model_tp_plan or base_model_ep_plan. Source: transformers 5.24 init_parallel_plans:
// dict.update(value or {}), so null, false, 0, "" and empty collections are an empty plan.
std::vector<PlanRule> configRules(const char *name, const nlohmann::json &value, std::string &problem) {
    std::vector<PlanRule> rules;
    const bool isEmpty = value.is_null() || value == false || value == 0 || value == "" || value.empty();
    if (!value.is_object() && !isEmpty)
        problem = std::string(name) + " of the config is no mapping: " + shortened(value.dump());
    if (!value.is_object())
        return rules;
    for (const auto &[key, style] : value.items()) {
        PlanRule rule;
        rule.key = key;
        rule.style = scalarOf(style);
        rule.styleIsText = style.is_string();
        rule.origin = RuleOrigin::ConfigPlan;
        rules.push_back(std::move(rule));
    }
    return rules;
}

// The plan the model is built with. Source: transformers 5.24 DistributedMixin.init_parallel_plans: the class's rules,
// then the base model's with its prefix; the base model puts the default embedding rule in front of a plan that is not
// empty, unless the plan has that very key.
RuleMap inheritedPlan(const ModelDescription &model, const std::vector<PlanRule> &classRules,
                      const std::vector<PlanRule> &baseRules) {
    RuleMap base;
    const Module *embedding = model.tree.find(joined(model.baseModelPrefix, "embed_tokens"));
    if (!baseRules.empty() && embedding && embedding->isEmbedding) {
        PlanRule rule;
        rule.key = "embed_tokens";
        rule.style = "embedding_rowwise";
        rule.origin = RuleOrigin::DefaultEmbedding;
        base.set(effective(std::move(rule)));
    }
    for (const PlanRule &rule : baseRules)
        base.set(effective(rule));
    RuleMap all;
    for (const PlanRule &rule : classRules)
        all.set(effective(rule));
    for (EffectiveRule &rule : base.take()) {
        rule.rule.key = joined(model.baseModelPrefix, rule.rule.key);
        all.set(std::move(rule));
    }
    return all;
}

// Groups of rules of the file with one key; a key merged in (<<) is no duplicate of one written.
std::vector<std::vector<std::size_t>> duplicatesOf(const std::vector<PlanRule> &rules) {
    std::vector<std::vector<std::size_t>> groups;
    std::unordered_map<std::string, std::size_t> first;
    std::unordered_map<std::size_t, std::size_t> groupOf;
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const auto [found, inserted] = first.try_emplace(rules[i].key, i);
        if (inserted)
            continue;
        const auto [group, isNew] = groupOf.try_emplace(found->second, groups.size());
        if (isNew)
            groups.push_back({found->second});
        groups[group->second].push_back(i);
    }
    return groups;
}

class Resolver {
public:
    Resolver(const ModelDescription &model, const BuiltinPlan *builtin, int tp)
        : m_model(model), m_builtin(builtin), m_names(namesOf(model.tree)) {
        m_plan.tp = tp;
        m_plan.baseMode = "builtin";
    }

    // Source: transformers 5.24 DistributedConfig._resolve_parallelism.
    int epSize(const PlanChoice &choice) const {
        if (choice.ep || !choice.document)
            return choice.ep.value_or(1);
        return choice.document->epSize.value_or(choice.document->expertParallel ? m_plan.tp : 1);
    }

    ResolvedPlan resolve(const PlanChoice &choice) {
        const PlanDocument *document = choice.document ? &*choice.document : nullptr;
        const bool whole = choice.kind == PlanChoice::Kind::None ||
                           (choice.kind == PlanChoice::Kind::Document && document && !document->baseBuiltin);
        m_plan.ep = epSize(choice);
        RuleMap inherited = inheritedTp();
        if (whole) {
            m_plan.baseMode = "none";
            leaveOut(inherited.take(), document);
            inherited = RuleMap();
        }
        merge(std::move(inherited), document);
        m_plan.noPlan = m_plan.rules.empty() && !m_plan.emptyMapping;
        std::vector<EffectiveRule> expertRules = mergeExpertRules(document, whole);
        dropRules();
        if (m_plan.ep > 1)
            std::ranges::move(expertRules, std::back_inserter(m_plan.rules));
        match();
        return std::move(m_plan);
    }

private:
    RuleMap inheritedTp() {
        const nlohmann::json *configPlan = m_model.config.tpPlan();
        static const std::vector<PlanRule> nothing;
        std::vector<PlanRule> own;
        if (configPlan) {
            m_plan.baseMode = "config";
            own = configRules("base_model_tp_plan", *configPlan, m_plan.configPlanProblem);
        }
        return inheritedPlan(m_model, m_builtin ? m_builtin->classRules : nothing,
                             configPlan ? own : m_builtin ? m_builtin->configRules : nothing);
    }

    void leaveOut(std::vector<EffectiveRule> inherited, const PlanDocument *document) {
        std::unordered_set<std::string> named;
        if (document)
            for (const PlanRule &rule : document->rules)
                named.insert(rule.key);
        for (EffectiveRule &rule : inherited)
            if (!named.contains(rule.rule.key) && m_names.contains(rule.rule.key))
                m_plan.leftOut.push_back(std::move(rule.rule));
    }

    // Source: transformers 5.24 _resolve_parallel_plans: {} when the mapping is empty, else plan | override.
    void merge(RuleMap inherited, const PlanDocument *document) {
        m_plan.emptyMapping = document && document->hasTpPlan && document->rules.empty();
        if (m_plan.emptyMapping)
            return;
        std::unordered_set<std::string> before;
        if (document) {
            m_plan.duplicates = duplicatesOf(document->rules);
            for (std::size_t i = 0; i < document->rules.size(); ++i) {
                const PlanRule &rule = document->rules[i];
                EffectiveRule merged = effective(rule);
                merged.documentIndex = i;
                const EffectiveRule *there = inherited.find(rule.key);
                merged.overridesInherited = there && (there->overridesInherited || !there->documentIndex);
                inherited.set(std::move(merged));
            }
        }
        m_plan.rules = inherited.take();
    }

    // Source: transformers 5.24 _resolve_parallel_plans, is_expert. Without ep rules its expression
    // `(?:)(?:\..+)?` matches the empty name.
    void dropRules() {
        for (EffectiveRule &rule : m_plan.rules)
            rule.dropped = rule.rule.keyIsText && (m_plan.ep > 1 && !m_plan.epRules.empty()
                                                       ? namedByEpRules(m_plan, rule.rule.key)
                                                       : rule.rule.key.empty());
    }

    using Index = std::unordered_map<std::string, int>; // by generic name: into rules

    static int ruleOf(const Index &index, const std::string &generic) {
        const auto found = index.find(generic);
        return found == index.end() ? -1 : found->second;
    }
    // A parameter takes the rule of its own name, else that of the module one level up.
    static int ruleOfParameter(const Index &index, const std::string &generic) {
        const int own = ruleOf(index, generic);
        const std::size_t dot = generic.rfind('.');
        return own >= 0 || dot == std::string::npos ? own : ruleOf(index, generic.substr(0, dot));
    }

    // Source: transformers 5.24 _expand_parallel_plan and _get_parameter_plan, of the tp and of the ep plan apart; the
    // ep plan is applied behind the tp plan, if it dispatches tokens at all (maybe_distribute_model).
    void match() {
        Index tpRules, epRules;
        for (std::size_t i = 0; i < m_plan.rules.size(); ++i) {
            EffectiveRule &rule = m_plan.rules[i];
            rule.matches = rule.rule.keyIsText && m_names.contains(rule.rule.key);
            if (rule.matches && !rule.dropped)
                (rule.expert ? epRules : tpRules).emplace(rule.rule.key, static_cast<int>(i));
            m_plan.appliesEpPlan =
                m_plan.appliesEpPlan || (rule.expert && rule.matches && rule.style && rule.style->dispatchesTokens);
        }
        if (!m_plan.appliesEpPlan)
            epRules.clear();
        const std::vector<Module> &modules = m_model.tree.modules;
        m_plan.moduleRule.assign(modules.size(), -1);
        for (std::size_t m = 0; m < modules.size(); ++m) {
            const std::string generic = genericName(modules[m].name);
            const int ep = ruleOf(epRules, generic);
            const int own = ep >= 0 ? ep : ruleOf(tpRules, generic);
            m_plan.moduleRule[m] = own;
            if (own >= 0)
                m_plan.rules[static_cast<std::size_t>(own)].modules.push_back(ModuleIndex(m));
            for (const Parameter &parameter : modules[m].parameters)
                matchParameter(joined(modules[m].name, parameter.name), tpRules, epRules);
        }
    }

    void matchParameter(const std::string &name, const Index &tpRules, const Index &epRules) {
        const std::string generic = genericName(name);
        const int tp = ruleOfParameter(tpRules, generic);
        const int ep = ruleOfParameter(epRules, generic);
        const auto cuts = [&](int rule) {
            const ParallelStyle *style = rule < 0 ? nullptr : m_plan.rules[static_cast<std::size_t>(rule)].style;
            return style && style->weightAxis != ParallelStyle::WeightAxis::None;
        };
        if (cuts(tp) && cuts(ep))
            m_plan.cutTwice.push_back(name);
        const int rule = ep < 0 || (cuts(tp) && !cuts(ep)) ? tp : ep;
        if (rule < 0)
            return;
        m_plan.parameterRule.emplace(name, rule);
        m_plan.rules[static_cast<std::size_t>(rule)].parameters.push_back(name);
    }

    RuleMap inheritedEp(bool whole) {
        const nlohmann::json *configPlan = m_model.config.epPlan();
        std::vector<PlanRule> rules;
        if (configPlan)
            rules = configRules("base_model_ep_plan", *configPlan, m_plan.configPlanProblem);
        else if (m_builtin)
            rules = m_builtin->configEpRules;
        RuleMap map;
        for (PlanRule rule : whole ? std::vector<PlanRule>() : rules) {
            rule.key = joined(m_model.baseModelPrefix, rule.key);
            map.set(effective(std::move(rule)));
        }
        return map;
    }

    std::vector<EffectiveRule> mergeExpertRules(const PlanDocument *document, bool whole) {
        RuleMap map = inheritedEp(whole);
        if (document) {
            m_plan.epDuplicates = duplicatesOf(document->epRules);
            for (std::size_t i = 0; i < document->epRules.size(); ++i) {
                const PlanRule &rule = document->epRules[i];
                EffectiveRule merged = effective(rule);
                merged.documentIndex = i;
                const EffectiveRule *there = map.find(rule.key);
                merged.overridesInherited = there && (there->overridesInherited || !there->documentIndex);
                if (!merged.overridesInherited && !(rule.keyIsText && m_names.contains(rule.key)))
                    m_plan.epUnmatched.push_back(rule);
                map.set(std::move(merged));
            }
        }
        std::vector<EffectiveRule> rules = map.take();
        for (EffectiveRule &rule : rules) {
            rule.expert = true;
            m_plan.epRules.push_back(rule.rule);
        }
        return rules;
    }

    const ModelDescription &m_model;
    const BuiltinPlan *m_builtin;
    std::unordered_set<std::string> m_names;
    ResolvedPlan m_plan;
};

} // namespace

Result<PlanChoice> PlanChoice::parse(const std::string &argument) {
    PlanChoice choice;
    if (argument == "auto")
        return choice;
    if (argument == "none") {
        choice.kind = Kind::None;
        return choice;
    }
    auto document = loadPlan(argument);
    if (!document) {
        Error error = document.error();
        if (error.code == ErrorCode::NotFound)
            error.message = "no such plan; a plan is a file, auto (the model's built-in plan) or none";
        return tl::unexpected(std::move(error));
    }
    choice.kind = Kind::Document;
    choice.document = std::move(*document);
    return choice;
}

bool namedByEpRules(const ResolvedPlan &plan, const std::string &key) {
    return std::ranges::any_of(plan.epRules, [&](const PlanRule &rule) {
        return key == rule.key || (key.size() > rule.key.size() + 1 && key.starts_with(rule.key + "."));
    });
}

bool ResolvedPlan::dealsExperts(const Module &module) const {
    return module.attributes.contains("num_experts") &&
           std::ranges::any_of(module.parameters, [&](const Parameter &parameter) {
               const ParallelStyle *style = styleOfParameter(joined(module.name, parameter.name));
               return style && style->evenOnly;
           });
}

const EffectiveRule *ResolvedPlan::ruleOfModule(ModuleIndex index) const {
    const int rule = index.value < moduleRule.size() ? moduleRule[index.value] : -1;
    return rule < 0 ? nullptr : &rules[static_cast<std::size_t>(rule)];
}

const EffectiveRule *ResolvedPlan::ruleOfParameter(const std::string &fullName) const {
    const auto found = parameterRule.find(fullName);
    return found == parameterRule.end() ? nullptr : &rules[static_cast<std::size_t>(found->second)];
}

const ParallelStyle *ResolvedPlan::styleOfModule(ModuleIndex index) const {
    const EffectiveRule *rule = ruleOfModule(index);
    return rule ? rule->style : nullptr;
}

const ParallelStyle *ResolvedPlan::styleOfParameter(const std::string &fullName) const {
    const EffectiveRule *rule = ruleOfParameter(fullName);
    return rule ? rule->style : nullptr;
}

ResolvedPlan resolvePlan(const ModelDescription &model, const PlanChoice &choice, const BuiltinPlan *builtin, int tp) {
    return Resolver(model, builtin, tp).resolve(choice);
}

} // namespace tpscope
