// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/transformersoracle.h"

#include <nlohmann/json.hpp>

#include "probe/probesession.h"
#include "run/oraclemessages.h"
#include "run/prompts.h"

namespace tpscope {
namespace {

using nlohmann::json;

// Stages of a failed probe that are verdicts on the plan.
std::string oracleStage(const std::string &stage) {
    return stage == "rejected"         ? oracle::loadStage
           : stage == "forward-error"  ? oracle::forwardStage
           : stage == "training-error" ? oracle::trainingStage
                                       : "";
}

void readEnvironment(const json &result, OracleReport &report) {
    const json &environment = result.at("environment");
    for (const char *key : {"torch", "transformers", "python"})
        if (environment.contains(key))
            report.environment.versions[key] = environment.at(key).get<std::string>();
    report.attention = environment.value("attention", report.attention);
    report.dtype = environment.value("dtype", report.dtype);
    report.environment.threads = environment.value("threads", report.environment.threads);
    if (const auto hooks = result.find("hooks"); hooks != result.end())
        report.statements.push_back("hooks " + hooks->at("mode").get<std::string>() + ": " +
                                    hooks->at("how").get<std::string>());
    for (const json &warning : result.value("warnings", json::array()))
        report.statements.push_back("transformers warns: " + warning.get<std::string>());
}

std::string significant(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

// What a user's own norm of the gradients is, on each rank.
std::string normStatement(const json &norms) {
    std::string local;
    for (const json &rank : norms)
        local += (local.empty() ? "" : ", ") + significant(rank.at("local").get<double>());
    const json &first = norms.at(0);
    const std::string clip = first.at("clip").is_null()
                                 ? "raises " + first.value("clip_error", std::string("an error"))
                                 : "reports " + significant(first.at("clip").get<double>());
    return "clip_grad_norm_ " + clip + "; the norm of what each rank holds: " + local;
}

void readFacts(const json &facts, const OracleRequest &request, DType dtype, OracleReport &report) {
    if (const json &logits = facts.at("logits"); logits.is_object())
        oracle::readLogits(logits, report);
    if (const json &gradients = facts.at("gradients"); gradients.is_object()) {
        oracle::readGradients(gradients, request.microSteps, dtype, report);
        report.statements.push_back(normStatement(gradients.at("norms")));
        for (const json &name : gradients.at("not_compared"))
            report.statements.push_back("not every rank has the parameter " + name.get<std::string>() +
                                        ": its gradient is not compared");
    }
}

} // namespace

Result<OracleReport> oracleReportOf(const json &result, const OracleRequest &request, DType dtype) {
    const std::string stage = result.value("stage", std::string());
    OracleReport report;
    report.failedStage = oracleStage(stage);
    if (stage != "done" && report.failedStage.empty())
        return tl::unexpected(ProbeSession::errorOf(result));
    report.environment = currentEnvironment();
    report.environment.seed = request.config.seed;
    report.attention = request.config.attention;
    report.dtype = torchName(dtype);
    try {
        readEnvironment(result, report);
        if (const auto facts = result.find("facts"); facts != result.end() && facts->is_object())
            readFacts(*facts, request, dtype, report);
        if (!report.failedStage.empty()) {
            report.failureKind = result.at("type").get<std::string>();
            report.failure = result.at("message").get<std::string>();
            report.failureRank = result.at("rank").get<int>();
        }
    } catch (const json::exception &error) {
        return fail(ErrorCode::RunFailed,
                    std::string("the transformers run's result lacks a value: ") + error.what());
    }
    report.verdict = judge(report, request);
    return report;
}

Result<json> runProbeOracle(const OracleRequest &request, const std::function<Result<json>(const ProbePaths &)> &ask,
                            EventSink &sink, std::stop_token stop) {
    const ProbeLimits limits = ProbeLimits::from(std::move(stop), request.config.timeout);
    ProbeLaunch launch;
    if (request.python.empty()) {
        auto found = findPython();
        if (!found)
            return tl::unexpected(found.error());
        launch.python.program = std::move(*found);
    } else {
        auto given = pythonOf(request.python);
        if (!given)
            return tl::unexpected(given.error());
        launch.python = std::move(*given);
    }
    launch.request = ask;
    launch.threads = request.config.threads;
    auto session = ProbeSession::start(launch);
    if (!session)
        return tl::unexpected(session.error());
    if (auto waited = session->waitUntil(sink, limits, [] { return false; }); !waited)
        return tl::unexpected(waited.error());
    return session->anyResult();
}

Result<OracleReport> runTransformersOracle(const RunInput &input, const OracleRequest &request, EventSink &sink,
                                           std::stop_token stop) {
    if (!request.config.inputIds.empty())
        if (const auto checked = checkPrompts(request.config, input.model.dims.vocab); !checked)
            return tl::unexpected(checked.error());
    const auto result = runProbeOracle(
        request, [&](const ProbePaths &paths) { return oracleProbeRequest(input, request, paths); }, sink,
        std::move(stop));
    if (!result)
        return tl::unexpected(result.error());
    return oracleReportOf(*result, request, input.model.dtype);
}

} // namespace tpscope
