// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/verifytiny.h"

#include <iostream>

#include "app/cli/interrupt.h"
#include "app/cli/table.h"
#include "probe/twin.h"

namespace tpscope::cli {
namespace {

Result<TwinRequest> requestOf(const OracleOptions &options) {
    auto choice = PlanChoice::parse(options.plan);
    if (!choice)
        return tl::unexpected(choice.error());
    const auto tp = effectiveTp(*choice, options.tp);
    if (!tp)
        return tl::unexpected(tp.error());
    TwinRequest request;
    if (options.hooks) {
        const auto hooks = parseHookMode(*options.hooks);
        if (!hooks)
            return tl::unexpected(hooks.error());
        request.hooks = *hooks;
    }
    OracleRequest &oracle = request.oracle;
    oracle.gradients = true;
    oracle.microSteps = options.microSteps;
    oracle.trainable = options.trainable;
    oracle.gradientCheckpointing = options.gradientCheckpointing;
    oracle.python = options.python;
    RunConfig &config = oracle.config;
    config.backend = Backend::Transformers;
    config.modelArgument = options.model;
    config.planArgument = options.plan;
    config.tp = *tp;
    config.seed = options.seed;
    config.threads = options.threads;
    config.attention = options.attention;
    config.timeout = std::chrono::seconds(options.timeoutSeconds);
    if (choice->document)
        config.planText = choice->document->text;
    request.plan = std::move(choice->document);
    if (!options.inputIds.empty()) {
        auto ids = parseInputIds(options.inputIds, 0);
        if (!ids)
            return tl::unexpected(ids.error());
        config.inputIds = std::move(*ids);
    }
    // What is no file, bundled model or hub id may be a model type or a class: the library knows.
    if (auto found = findModel(options.model))
        request.config = std::filesystem::absolute(found->configPath);
    else if (found.error().code != ErrorCode::NotFound)
        return tl::unexpected(found.error());
    return request;
}

std::string namesText(const std::vector<std::string> &names) {
    std::string out;
    for (std::size_t i = 0; i < names.size() && i < 6; ++i)
        out += (i ? ", " : "") + names[i];
    return names.size() > 6 ? out + " and " + std::to_string(names.size() - 6) + " more" : out;
}

std::string ruleText(const TwinRule &rule, const TwinRequest &request) {
    const std::string place = rule.span.valid() ? request.plan->fileName + ":" + std::to_string(rule.span.line) + ":" +
                                                      std::to_string(rule.span.column)
                                                : "inherited";
    return "    " + place + ": " + rule.key + ": " + rule.style + "\n";
}

void printText(const TwinReport &report, const TwinRequest &request) {
    const OracleReport &oracle = report.oracle;
    const auto version = oracle.environment.versions.find("transformers");
    std::cout << name(oracle.verdict) << " (measured: tiny twin of " << report.modelType << ", " << report.modelClass
              << ", " << report.layers << " layers, " << grouped(report.parameters) << " parameters; tp "
              << request.oracle.config.tp << " on transformers "
              << (version == oracle.environment.versions.end() ? "" : version->second) << " against one process)\n";
    for (const TwinCheck &check : report.checks) {
        std::cout << check.name << ": " << name(check.verdict);
        if (!check.message.empty())
            std::cout << " - " << check.message;
        std::cout << '\n';
        if (check.verdict == TwinCheck::Verdict::Right)
            continue;
        if (!check.names.empty())
            std::cout << "    " << namesText(check.names) << '\n';
        for (const TwinRule &rule : check.rules)
            std::cout << ruleText(rule, request);
        if (check.rules.empty() && !check.names.empty())
            std::cout << "    no rule of the plan names them\n";
    }
    for (const std::string &statement : oracle.statements)
        std::cout << "note: " << statement << '\n';
}

} // namespace

int runVerifyTiny(const OracleOptions &options) {
    if (options.backend != name(Backend::Transformers))
        return report({ErrorCode::Usage, "--tiny needs --backend transformers", std::nullopt});
    const auto request = requestOf(options);
    if (!request)
        return report(request.error());
    auto sink = CliSink::open(options.events, options.quiet);
    if (!sink)
        return report(sink.error());
    const Interrupt interrupt;
    const auto answer = examineTwin(*request, **sink, interrupt.token());
    if (!answer)
        return report(answer.error());
    const nlohmann::json json = toJson(*answer, *request);
    const int exitStatus = answer->oracle.verdict == OracleReport::Verdict::Right ? 0 : 1;
    if (const auto finished = (*sink)->finish(json); !finished)
        return report(finished.error());
    if ((*sink)->streamsToStdout())
        return exitStatus;
    if (options.json())
        return print(json, exitStatus);
    printText(*answer, *request);
    return exitStatus;
}

} // namespace tpscope::cli
