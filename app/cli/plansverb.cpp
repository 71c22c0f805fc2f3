// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/verbs.h"
#include "base/text.h"

namespace tpscope::cli {
namespace {

int listPlans(const CommonOptions &options) {
    nlohmann::json plans = nlohmann::json::array();
    for (const std::string &name : builtinPlanNames()) {
        if (!options.json())
            std::cout << name << '\n';
        plans.push_back({{"name", name}});
    }
    return options.json() ? print({{"plans", std::move(plans)}}) : 0;
}

std::string prefixed(const BuiltinPlan &plan, const std::string &key) {
    return plan.baseModelPrefix.empty() ? key : plan.baseModelPrefix + "." + key;
}

int showPlan(const std::string &name, const CommonOptions &options) {
    const auto plan = loadBuiltinPlan(name);
    if (!plan) {
        Error error = plan.error();
        if (error.code == ErrorCode::NotFound) {
            const std::string near = nearest(name, builtinPlanNames());
            error = {ErrorCode::NotFound,
                     "no built-in plan is called \"" + name + "\"" +
                         (near.empty() ? "" : "; the nearest is \"" + near + "\"") + "; `tpscope plans list` shows all",
                     std::nullopt};
        }
        return report(error);
    }
    nlohmann::json tp = nlohmann::json::object();
    nlohmann::json ep = nlohmann::json::object();
    for (const PlanRule &rule : plan->classRules)
        tp[rule.key] = rule.style;
    for (const PlanRule &rule : plan->configRules)
        tp[prefixed(*plan, rule.key)] = rule.style;
    for (const PlanRule &rule : plan->configEpRules)
        ep[prefixed(*plan, rule.key)] = rule.style;
    // The default rule upstream adds when a plan names no embedding; every model in the catalogue has embed_tokens.
    const std::string embedding = prefixed(*plan, "embed_tokens");
    if (!tp.empty() && !tp.contains(embedding))
        tp[embedding] = "embedding_rowwise";
    if (options.json())
        return print({{"name", name}, {"model_type", plan->modelType}, {"source", plan->source},
                      {"tp_plan", tp}, {"ep_plan", ep}});
    std::cout << "# " << plan->source << "\nmodel_type: " << plan->modelType << "\ntp_plan:\n";
    for (const auto &[key, style] : tp.items())
        std::cout << "  " << key << ": " << style.get<std::string>() << '\n';
    if (!ep.empty())
        std::cout << "ep_plan:\n";
    for (const auto &[key, style] : ep.items())
        std::cout << "  " << key << ": " << style.get<std::string>() << '\n';
    return 0;
}

} // namespace

void addPlansVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<CommonOptions>();
    auto shown = std::make_shared<std::string>();
    CLI::App *verb = app.add_subcommand("plans", "List or show the built-in plans.");
    verb->require_subcommand(1);
    CLI::App *list = verb->add_subcommand("list", "List the families that have a built-in plan.");
    addFormatOption(*list, *options);
    list->callback([options, &exitStatus] { exitStatus = listPlans(*options); });
    CLI::App *show = verb->add_subcommand("show", "Show one built-in plan as `--plan auto` applies it.");
    show->add_option("name", *shown, "model type, e.g. qwen3")->required();
    addFormatOption(*show, *options);
    show->footer("Example: tpscope plans show qwen3");
    show->callback([options, shown, &exitStatus] { exitStatus = showPlan(*shown, *options); });
}

} // namespace tpscope::cli
