// SPDX-License-Identifier: GPL-3.0-or-later
// Reader of the catalogue: plans/<model_type>.yaml.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/resources.h"
#include "base/text.h"
#include "plan/catalogue.h"
#include "plan/planrules.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::string &prefix, const std::string &key) {
    return prefix.empty() ? key : prefix + "." + key;
}

struct CatalogueReader {
    const YamlTree &tree;
    const std::string &fileName;
    CatalogueEntry entry{};
    std::vector<PlanRule> subModelEpRules{}; // full names
    YamlIndex subModelEpPlan = 0;

    tl::unexpected<Error> failAt(YamlIndex index, std::string message) const {
        const SourceSpan &span = tree.nodes[index].span;
        return fail(ErrorCode::BadInput, std::move(message), Location{fileName, span.line, span.column});
    }
    tl::unexpected<Error> failAt(const YamlPair &pair, const std::string &expected) const {
        return failAt(pair.value, tree.printable(pair.key) + ": expected " + expected + ", found " +
                                      describeKind(tree, pair.value));
    }
    bool isMapping(const YamlPair &pair) const { return tree.resolved(pair.value).kind == YamlNode::Kind::Mapping; }

    Result<void> read(const YamlPair &pair) {
        const std::string key = tree.printable(pair.key);
        BuiltinPlan &plan = entry.plan;
        const std::pair<std::string_view, std::string *> texts[] = {{"model_type", &plan.modelType},
                                                                    {"upstream", &plan.source},
                                                                    {"class", &entry.modelClass},
                                                                    {"base_model_prefix", &plan.baseModelPrefix}};
        const std::pair<std::string_view, std::vector<PlanRule> *> plans[] = {
            {"class_tp_plan", &plan.classRules},
            {"sub_model_tp_plan", &plan.classRules},
            {"base_model_tp_plan", &plan.configRules},
            {"base_model_ep_plan", &plan.configEpRules},
            {"sub_model_ep_plan", &subModelEpRules}};
        for (const auto &[name, target] : texts)
            if (key == name)
                return readText(pair, *target);
        for (const auto &[name, target] : plans)
            if (key == name)
                return readPlan(pair, *target,
                                target == &plan.classRules ? RuleOrigin::ClassRule : RuleOrigin::ConfigPlan);
        if (key == "default_embedding")
            return readFlag(pair, entry.defaultEmbedding);
        if (key == "sub_models")
            return readTexts(pair, entry.subModels);
        if (key == "sub_model_configs")
            return readTexts(pair, entry.subModelConfigs);
        return failAt(pair.key, "unknown key \"" + shortened(key) + "\" in a built-in plan");
    }

    Result<void> readText(const YamlPair &pair, std::string &target) const {
        if (!tree.isText(pair.value))
            return failAt(pair, "a text");
        target = tree.resolved(pair.value).value;
        return {};
    }

    Result<void> readFlag(const YamlPair &pair, bool &target) const {
        const std::string value = tree.printable(pair.value);
        if (value != "true" && value != "false")
            return failAt(pair, "true or false");
        target = value == "true";
        return {};
    }

    Result<void> readPlan(const YamlPair &pair, std::vector<PlanRule> &target, RuleOrigin origin) {
        if (!isMapping(pair))
            return failAt(pair, "a mapping");
        if (&target == &subModelEpRules)
            subModelEpPlan = pair.key;
        for (PlanRule &rule : readRules(tree, tree.resolvedIndex(pair.value), origin)) {
            // Places in the catalogue are no places in the user's plan.
            rule.keySpan = rule.styleSpan = {};
            target.push_back(std::move(rule));
        }
        return {};
    }

    Result<void> readTexts(const YamlPair &pair, std::vector<std::pair<std::string, std::string>> &target) const {
        if (!isMapping(pair))
            return failAt(pair, "a mapping");
        for (const YamlPair &sub : tree.pairs(tree.resolvedIndex(pair.value))) {
            std::string text;
            if (const auto read = readText(sub, text); !read)
                return read;
            target.emplace_back(tree.printable(sub.key), std::move(text));
        }
        return {};
    }

    // The config's ep rules are the only place for those of sub-models: the prefix is put back when they are applied.
    Result<void> addSubModelEpRules() {
        const std::string prefix = joined(entry.plan.baseModelPrefix, "");
        for (PlanRule &rule : subModelEpRules) {
            if (!rule.key.starts_with(prefix))
                return failAt(subModelEpPlan, "sub_model_ep_plan: \"" + shortened(rule.key) +
                                                  "\" does not stand below the base model");
            rule.key.erase(0, prefix.size());
            entry.plan.configEpRules.push_back(std::move(rule));
        }
        return {};
    }
};

// The model_type at a dotted key of a config.json; "" where it says none.
std::string modelTypeAt(const nlohmann::json &config, const std::string &dottedKey) {
    const nlohmann::json *at = &config;
    for (std::size_t begin = 0; begin <= dottedKey.size();) {
        const std::size_t end = std::min(dottedKey.find('.', begin), dottedKey.size());
        const auto found = at->find(dottedKey.substr(begin, end - begin));
        if (found == at->end() || !found->is_object())
            return {};
        at = &*found;
        begin = end + 1;
    }
    const auto type = at->find("model_type");
    return type != at->end() && type->is_string() ? type->get<std::string>() : std::string();
}

// Puts the rules of a base model of another family in place of those of the sub-model `name`.
// part: that family; nullptr: it has no plan.
void replaceSubModel(BuiltinPlan &plan, const std::string &name, const CatalogueEntry *part) {
    const std::string prefix = joined(plan.baseModelPrefix, "");
    const std::string begin = name + ".";
    std::erase_if(plan.classRules, [&](const PlanRule &rule) { return rule.key.starts_with(begin); });
    std::erase_if(plan.configEpRules, [&](const PlanRule &rule) { return (prefix + rule.key).starts_with(begin); });
    if (!part)
        return;
    CatalogueEntry base = *part;
    base.plan.classRules.clear();
    base.plan.baseModelPrefix = name;
    const auto add = [](std::vector<PlanRule> &target, std::string key, std::string style, RuleOrigin origin) {
        PlanRule rule;
        rule.key = std::move(key);
        rule.style = std::move(style);
        rule.origin = origin;
        target.push_back(std::move(rule));
    };
    for (const auto &[key, style] : appliedTpRules(base))
        add(plan.classRules, key, style, RuleOrigin::ClassRule);
    for (const auto &[key, style] : appliedEpRules(base))
        add(plan.configEpRules, key.substr(prefix.size()), style, RuleOrigin::ConfigPlan);
}

bool isFileName(const std::string &modelType) {
    return !modelType.empty() && modelType.size() < 200 && modelType.front() != '.' &&
           std::ranges::all_of(modelType, [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
           });
}

} // namespace

Result<CatalogueEntry> parseCatalogueEntry(const std::string &text, const std::string &fileName) {
    const auto tree = readYaml(text, fileName);
    if (!tree)
        return tl::unexpected(tree.error());
    CatalogueReader reader{*tree, fileName};
    if (tree->resolved(tree->root).kind != YamlNode::Kind::Mapping)
        return reader.failAt(tree->root, "expected a mapping, found " + describeKind(*tree, tree->root));
    for (const YamlPair &pair : tree->pairs(tree->resolvedIndex(tree->root)))
        if (const auto read = reader.read(pair); !read)
            return tl::unexpected(read.error());
    if (reader.entry.plan.modelType.empty() || reader.entry.plan.source.empty())
        return reader.failAt(tree->root, "a built-in plan names its model_type and its upstream version");
    if (const auto added = reader.addSubModelEpRules(); !added)
        return tl::unexpected(added.error());
    return std::move(reader.entry);
}

Result<CatalogueEntry> loadCatalogueEntry(const std::string &modelType) {
    const fs::path path = plansDir() / (modelType + ".yaml");
    std::error_code ec;
    if (!isFileName(modelType) || !fs::is_regular_file(path, ec)) {
        const std::vector<std::string> near = nearestFew(modelType, builtinPlanNames(), 5);
        std::string message = "no built-in plan for model type \"" + shortened(modelType) + "\"";
        for (std::size_t i = 0; i < near.size(); ++i)
            message += (i == 0 ? "; near it are: " : ", ") + near[i];
        return fail(ErrorCode::NotFound, message);
    }
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    return parseCatalogueEntry(*text, path.string());
}

Result<BuiltinPlan> parseBuiltinPlan(const std::string &text, const std::string &fileName) {
    return parseCatalogueEntry(text, fileName).map([](CatalogueEntry &&entry) { return std::move(entry.plan); });
}

Result<BuiltinPlan> loadBuiltinPlan(const std::string &modelType) {
    return loadCatalogueEntry(modelType).map([](CatalogueEntry &&entry) { return std::move(entry.plan); });
}

Result<CatalogueEntry> catalogueEntryOf(const ModelConfig &config) {
    auto entry = loadCatalogueEntry(config.modelType());
    if (!entry)
        return entry;
    for (const auto &[name, key] : entry->subModelConfigs) {
        const std::string type = modelTypeAt(config.json(), key);
        const auto subModel = std::ranges::find(entry->subModels, name, &std::pair<std::string, std::string>::first);
        if (type.empty() || subModel == entry->subModels.end() || subModel->second == type)
            continue;
        const auto part = loadCatalogueEntry(type);
        if (!part && part.error().code != ErrorCode::NotFound)
            return tl::unexpected(part.error());
        replaceSubModel(entry->plan, name, part ? &*part : nullptr);
        subModel->second = type;
    }
    return entry;
}

StyleByKey appliedTpRules(const CatalogueEntry &entry) {
    const BuiltinPlan &plan = entry.plan;
    StyleByKey rules;
    if (!plan.configRules.empty() && entry.defaultEmbedding)
        rules[joined(plan.baseModelPrefix, "embed_tokens")] = "embedding_rowwise";
    for (const PlanRule &rule : plan.classRules)
        rules[rule.key] = rule.style;
    for (const PlanRule &rule : plan.configRules)
        rules[joined(plan.baseModelPrefix, rule.key)] = rule.style;
    return rules;
}

StyleByKey appliedEpRules(const CatalogueEntry &entry) {
    StyleByKey rules;
    for (const PlanRule &rule : entry.plan.configEpRules)
        rules[joined(entry.plan.baseModelPrefix, rule.key)] = rule.style;
    return rules;
}

std::vector<std::string> builtinPlanNames() {
    std::vector<std::string> names;
    std::error_code ec;
    for (fs::directory_iterator it(plansDir(), ec), end; !ec && it != end; it.increment(ec))
        if (it->is_regular_file() && it->path().extension() == ".yaml")
            names.push_back(it->path().stem().string());
    std::ranges::sort(names);
    return names;
}

} // namespace tpscope
