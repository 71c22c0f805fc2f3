// SPDX-License-Identifier: GPL-3.0-or-later
// Prints random plans for a model, one JSON object a line, with what lint predicts for each: what tests that run them
// on real transformers read.
// usage: randomplans MODEL_FOLDER COUNT SEED SMALLEST_TP LARGEST_TP
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../support/randomplans.h"
#include "arch/family.h"
#include "lint/lint.h"
#include "model/modelsource.h"

using namespace tpscope;
using nlohmann::json;

int main(int argc, char **argv) {
    if (argc != 6) {
        std::cerr << "usage: randomplans MODEL_FOLDER COUNT SEED SMALLEST_TP LARGEST_TP\n";
        return 2;
    }
    const auto model = findModel(argv[1])
                           .and_then([](const ModelSource &source) { return ModelConfig::load(source.configPath.string()); })
                           .and_then([](const ModelConfig &config) { return describe(config); });
    if (!model) {
        std::cerr << model.error().text() << '\n';
        return 2;
    }
    const auto builtin = loadBuiltinPlan(model->modelType);
    if (!builtin) {
        std::cerr << builtin.error().text() << '\n';
        return 2;
    }
    test::RandomPlans random(*model, *builtin, std::strtoull(argv[3], nullptr, 10));
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
        const test::RandomPlan plan = random.next(std::atoi(argv[4]), std::atoi(argv[5]));
        LintOptions options;
        options.train = true;
        const LintReport report = lint(*model, plan.choice(), &*builtin, plan.tp, options);
        json errors = json::array();
        json warnings = json::array();
        json permuted = json::array(); // modules whose parameters a save would write in another order
        for (const Diagnostic &diagnostic : report.diagnostics)
            if (diagnostic.severity == Severity::Error)
                errors.push_back(diagnostic.code + " " + diagnostic.message);
            else if (diagnostic.severity == Severity::Warning)
                warnings.push_back(diagnostic.code);
        for (const Diagnostic &diagnostic : report.diagnostics)
            if (diagnostic.code == "TP204")
                for (const std::string &module : diagnostic.modules)
                    permuted.push_back(module);
        std::cout << json{{"tp", plan.tp},
                          {"tp_plan", plan.rules},
                          {"outcome", name(report.outcome)},
                          {"wrong_parameters", report.wrongParameters},
                          {"errors", errors},
                          {"warnings", warnings},
                          {"permuted", permuted}}
                  << '\n';
    }
    return 0;
}
