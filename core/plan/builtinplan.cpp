// SPDX-License-Identifier: GPL-3.0-or-later
// Reader of the catalogue: plans/<model_type>.yaml.
#include <algorithm>
#include <filesystem>

#include "base/resources.h"
#include "base/text.h"
#include "plan/planrules.h"
#include "plan/resolvedplan.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;

struct CatalogueReader {
    const YamlTree &tree;
    const std::string &fileName;
    BuiltinPlan plan;

    tl::unexpected<Error> failAt(YamlIndex index, std::string message) const {
        const SourceSpan &span = tree.nodes[index].span;
        return fail(ErrorCode::BadInput, std::move(message), Location{fileName, span.line, span.column});
    }

    Result<void> read(const YamlPair &pair) {
        const std::string key = tree.printable(pair.key);
        const std::pair<std::string_view, std::string *> texts[] = {
            {"model_type", &plan.modelType}, {"upstream", &plan.source}, {"base_model_prefix", &plan.baseModelPrefix}};
        const std::pair<std::string_view, std::vector<PlanRule> *> plans[] = {
            {"class_tp_plan", &plan.classRules},
            {"base_model_tp_plan", &plan.configRules},
            {"base_model_ep_plan", &plan.configEpRules}};
        for (const auto &[name, target] : texts) {
            if (key != name)
                continue;
            if (!tree.isText(pair.value))
                return failAt(pair.value, key + ": expected a text, found " + describeKind(tree, pair.value));
            *target = tree.resolved(pair.value).value;
            return {};
        }
        for (const auto &[name, target] : plans) {
            if (key != name)
                continue;
            if (tree.resolved(pair.value).kind != YamlNode::Kind::Mapping)
                return failAt(pair.value, key + ": expected a mapping, found " + describeKind(tree, pair.value));
            const RuleOrigin origin = target == &plan.classRules ? RuleOrigin::ClassRule : RuleOrigin::ConfigPlan;
            *target = readRules(tree, tree.resolvedIndex(pair.value), origin);
            // Places in the catalogue are no places in the user's plan.
            for (PlanRule &rule : *target)
                rule.keySpan = rule.styleSpan = {};
            return {};
        }
        return failAt(pair.key, "unknown key \"" + shortened(key) + "\" in a built-in plan");
    }
};

bool isFileName(const std::string &modelType) {
    return !modelType.empty() && modelType.size() < 200 && modelType.front() != '.' &&
           std::ranges::all_of(modelType, [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
           });
}

} // namespace

Result<BuiltinPlan> parseBuiltinPlan(const std::string &text, const std::string &fileName) {
    const auto tree = readYaml(text, fileName);
    if (!tree)
        return tl::unexpected(tree.error());
    CatalogueReader reader{*tree, fileName, {}};
    if (tree->resolved(tree->root).kind != YamlNode::Kind::Mapping)
        return reader.failAt(tree->root, "expected a mapping, found " + describeKind(*tree, tree->root));
    for (const YamlPair &pair : tree->pairs(tree->resolvedIndex(tree->root)))
        if (const auto read = reader.read(pair); !read)
            return tl::unexpected(read.error());
    if (reader.plan.modelType.empty() || reader.plan.source.empty())
        return reader.failAt(tree->root, "a built-in plan names its model_type and its upstream version");
    return std::move(reader.plan);
}

Result<BuiltinPlan> loadBuiltinPlan(const std::string &modelType) {
    const fs::path path = plansDir() / (modelType + ".yaml");
    std::error_code ec;
    if (!isFileName(modelType) || !fs::is_regular_file(path, ec)) {
        std::string message = "no built-in plan for model type \"" + shortened(modelType) + "\"; there are: ";
        for (std::string separator; const std::string &name : builtinPlanNames()) {
            message += separator + name;
            separator = ", ";
        }
        return fail(ErrorCode::NotFound, message);
    }
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    return parseBuiltinPlan(*text, path.string());
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
