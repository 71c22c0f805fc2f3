// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"

namespace tpscope::cli {
namespace {

int listModels(const CommonOptions &options) {
    nlohmann::json models = nlohmann::json::array();
    Table table({"name", "model type", "parameters", "flow"}, {Align::Left, Align::Left, Align::Right, Align::Left});
    for (const std::string &name : bundledModelNames()) {
        const auto source = findModel(name);
        if (!source)
            return report(source.error());
        const auto config = ModelConfig::load(source->configPath.string());
        if (!config)
            return report(config.error());
        nlohmann::json row{{"name", name}, {"model_type", config->modelType()}, {"parameters", nullptr},
                           {"weights", source->hasWeights() ? "bundled" : "random by seed"}};
        std::string count = "-";
        std::string flow = "not described yet";
        if (const auto model = describe(*config)) {
            row["parameters"] = model->parameterCount();
            count = grouped(model->parameterCount());
            flow = "described";
        }
        table.add({name, config->modelType(), count, flow});
        models.push_back(std::move(row));
    }
    if (options.json())
        return print({{"models", std::move(models)}});
    std::cout << table.text();
    return 0;
}

} // namespace

void addModelsVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<CommonOptions>();
    CLI::App *verb = app.add_subcommand("models", "List the bundled models.");
    addFormatOption(*verb, *options);
    verb->footer("Example: tpscope models --format json");
    verb->callback([options, &exitStatus] { exitStatus = listModels(*options); });
}

} // namespace tpscope::cli
