// SPDX-License-Identifier: GPL-3.0-or-later
#include <cmath>

#include "run/oraclemessages.h"
#include "run/rankrequest.h"

namespace tpscope {
namespace {

using nlohmann::json;

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

template <typename T> json orNull(const std::optional<T> &value) { return value ? json(*value) : json(nullptr); }

json toJson(const Environment &environment) {
    return {{"machine", environment.machine}, {"versions", environment.versions}, {"seed", environment.seed},
            {"threads", environment.threads}, {"date", environment.date}};
}

// Both values, or both shapes where values cannot be compared.
json toJson(const Divergence &divergence) {
    return {{"name", divergence.module},
            {"operation", divergence.operation},
            {"rank", divergence.rank},
            {"expected", divergence.expected ? number(*divergence.expected) : json(divergence.expectedShape)},
            {"found", divergence.found ? number(*divergence.found) : json(divergence.foundShape)},
            {"index", divergence.index},
            {"expected_shape", divergence.expectedShape},
            {"found_shape", divergence.foundShape}};
}

json parametersOf(const GradientReport &report) {
    json rows = json::array();
    for (const ParameterGradient &parameter : report.parameters)
        rows.push_back(toJson(parameter));
    return rows;
}

json gradientsOf(const GradientReport &report) {
    return {{"verdict", report.exact() ? "exact" : "wrong"},
            {"tolerance", report.tolerance},
            {"gradient_norm", {{"reported", number(report.reportedNorm)}, {"true", number(report.trueNorm)}}},
            {"loss", {{"reported", report.losses.empty() ? json(nullptr) : number(report.losses.front())},
                      {"true", number(report.trueLoss)}}},
            {"parameters", parametersOf(report)}};
}

// Of one micro-step on rank 0.
json collectivesOf(const OracleReport &report) {
    return {{"measured", toJson(report.gradients->collectives)},
            {"predicted", report.predictedCollectives ? toJson(*report.predictedCollectives) : json(nullptr)}};
}

json contextOf(const OracleReport &report, const OracleRequest &request) {
    // A plan refused at load is not run: that verdict is lint's.
    const bool byRule = report.failedStage == oracle::loadStage && request.config.backend == Backend::Gloo;
    json out{{"model", request.config.modelArgument},
             {"plan", request.config.planArgument},
             {"tp", request.config.tp},
             {"hooks", name(request.config.hooks)},
             {"micro_steps", request.microSteps},
             {"trainable", request.trainable},
             {"gradient_checkpointing", request.gradientCheckpointing},
             {"backend", name(request.config.backend)},
             {"source", name(byRule ? Source::Predicted : Source::Measured)},
             {"attention", report.attention},
             {"dtype", report.dtype},
             {"statements", report.statements},
             {"environment", toJson(report.environment)}};
    out["error"] = nullptr;
    if (!report.failedStage.empty())
        out["error"] = {{"stage", report.failedStage},
                        {"message", report.failure},
                        {"kind", report.failureKind.empty() ? json(nullptr) : json(report.failureKind)},
                        {"rank", orNull(report.failureRank)}};
    return out;
}

} // namespace

json requestToJson(const OracleRequest &request) {
    json out = requestToJson(request.config);
    out["oracle"] = {{"logits", request.logits},
                     {"gradients", request.gradients},
                     {"decode_steps", request.decodeSteps},
                     {"micro_steps", request.microSteps},
                     {"trainable", request.trainable},
                     {"gradient_checkpointing", request.gradientCheckpointing}};
    return out;
}

Result<std::optional<OracleRequest>> oracleRequestFromJson(const json &json) {
    const auto found = json.find("oracle");
    if (found == json.end())
        return std::nullopt;
    auto config = requestFromJson(json);
    if (!config)
        return tl::unexpected(config.error());
    OracleRequest request;
    request.config = std::move(*config);
    try {
        found->at("logits").get_to(request.logits);
        found->at("gradients").get_to(request.gradients);
        found->at("decode_steps").get_to(request.decodeSteps);
        found->at("micro_steps").get_to(request.microSteps);
        found->at("trainable").get_to(request.trainable);
        found->at("gradient_checkpointing").get_to(request.gradientCheckpointing);
    } catch (const nlohmann::json::exception &error) {
        return fail(ErrorCode::BadInput, std::string("the request's \"oracle\": ") + error.what());
    }
    if (request.decodeSteps < 0 || request.decodeSteps > 4096 || request.microSteps < 1 || request.microSteps > 4096)
        return fail(ErrorCode::BadInput, "the request's \"oracle\": decode_steps 0 to 4096, micro_steps 1 to 4096");
    return request;
}

json toJson(const OracleReport &report, const OracleRequest &request) {
    json out = contextOf(report, request);
    out["verdict"] = name(report.verdict);
    out["max_abs_logit_error"] =
        report.logits && !report.logits->shapesDiffer ? number(report.logits->maxAbsError) : json(nullptr);
    out["first_diverging_module"] = report.divergence ? toJson(*report.divergence) : json(nullptr);
    if (report.logits)
        out["logits"] = {{"right", report.logits->right()},
                         {"tolerance", report.logits->tolerance},
                         {"decode_steps", request.decodeSteps},
                         {"first_wrong_step", orNull(report.logits->wrongStep)},
                         {"expected_shape", report.logits->expectedShape},
                         {"found_shape", report.logits->foundShape}};
    else
        out["logits"] = nullptr;
    out["gradients"] = report.gradients ? gradientsOf(*report.gradients) : json(nullptr);
    if (report.gradients)
        out["gradients"]["collectives"] = collectivesOf(report);
    return out;
}

json gradientsToJson(const OracleReport &report, const OracleRequest &request) {
    json out = contextOf(report, request);
    const GradientReport none;
    out.update(gradientsOf(report.gradients ? *report.gradients : none));
    out["collectives"] = report.gradients ? collectivesOf(report) : json(nullptr);
    if (!report.gradients) {
        out["gradient_norm"] = nullptr;
        out["verdict"] = "wrong"; // a step that raises gives no gradient
    }
    return out;
}

namespace oracle {

json logitsToJson(const LogitComparison &logits, const std::optional<Divergence> &divergence) {
    json out{{"type", logitsMessage},
             {"max_abs_error", logits.maxAbsError},
             {"tolerance", logits.tolerance},
             {"wrong_step", orNull(logits.wrongStep)},
             {"shapes_differ", logits.shapesDiffer},
             {"expected_shape", logits.expectedShape},
             {"found_shape", logits.foundShape},
             {"divergence", nullptr}};
    if (divergence)
        out["divergence"] = {{"module", divergence->module},
                             {"operation", divergence->operation},
                             {"rank", divergence->rank},
                             {"expected", orNull(divergence->expected)},
                             {"found", orNull(divergence->found)},
                             {"index", divergence->index},
                             {"expected_shape", divergence->expectedShape},
                             {"found_shape", divergence->foundShape}};
    return out;
}

void readLogits(const json &message, OracleReport &report) {
    LogitComparison &logits = report.logits.emplace();
    const json &error = message.at("max_abs_error");
    logits.maxAbsError = error.is_null() ? INFINITY : error.get<double>(); // JSON has no infinity
    message.at("tolerance").get_to(logits.tolerance);
    if (const json &step = message.at("wrong_step"); !step.is_null())
        logits.wrongStep = step.get<int>();
    message.at("shapes_differ").get_to(logits.shapesDiffer);
    message.at("expected_shape").get_to(logits.expectedShape);
    message.at("found_shape").get_to(logits.foundShape);
    const json &from = message.at("divergence");
    if (from.is_null())
        return;
    Divergence &divergence = report.divergence.emplace();
    from.at("module").get_to(divergence.module);
    from.at("operation").get_to(divergence.operation);
    from.at("rank").get_to(divergence.rank);
    if (!from.at("expected").is_null()) {
        divergence.expected = from.at("expected").get<double>();
        const json &found = from.at("found");
        divergence.found = found.is_null() ? NAN : found.get<double>();
    }
    from.at("index").get_to(divergence.index);
    from.at("expected_shape").get_to(divergence.expectedShape);
    from.at("found_shape").get_to(divergence.foundShape);
}

void readGradients(const json &message, int microSteps, DType dtype, OracleReport &report) {
    std::vector<GradientFacts> facts;
    for (const json &row : message.at("parameters"))
        facts.push_back(gradientFactsFromJson(row));
    report.gradients = judgeGradients(facts, microSteps, dtype);
    message.at("losses").get_to(report.gradients->losses);
    message.at("true_loss").get_to(report.gradients->trueLoss);
    report.gradients->collectives = collectivesFromJson(message.at("collectives"));
}

} // namespace oracle
} // namespace tpscope
