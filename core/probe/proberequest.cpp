// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/proberequest.h"

#include "base/resources.h"
#include "probe/randommodel.h"
#include "probe/twin.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

struct PlanRequest {
    nlohmann::json rules; // "auto", null or an object
    std::string base = "builtin";
    nlohmann::json epRules; // null or an object
};

nlohmann::json asObject(const std::vector<PlanRule> &rules) {
    nlohmann::json out = nlohmann::json::object();
    for (const PlanRule &rule : rules)
        out[rule.key] = rule.style; // a key given twice: the last one wins, as in Python
    return out;
}

// The rules as the user wrote them: what they mean is the library's business here.
Result<PlanRequest> planRequest(const RunConfig &config) {
    PlanRequest request;
    if (config.planArgument == "none")
        return request; // nothing to apply: allowed at tp 1, refused by the library otherwise
    request.rules = "auto";
    if (config.planArgument == "auto")
        return request;
    auto document = parsePlan(config.planText, config.planArgument);
    if (!document)
        return tl::unexpected(document.error());
    request.base = document->baseBuiltin ? "builtin" : "none";
    if (!document->epRules.empty())
        request.epRules = asObject(document->epRules);
    if (!document->hasTpPlan || !document->tpPlanIsMapping)
        return request; // upstream takes the model's own plan
    request.rules = asObject(document->rules);
    return request;
}

// The model's folder when it holds weights; else one with random weights, written now.
Result<fs::path> modelFolder(const RunInput &input, const ProbePaths &paths) {
    const fs::path config = fs::absolute(input.model.config.fileName());
    std::error_code ec;
    if (config.filename() == "config.json")
        for (const auto &entry : fs::directory_iterator(config.parent_path(), ec))
            if (entry.path().extension() == ".safetensors")
                return config.parent_path();
    if (auto written = writeRandomModel(input.model, input.config.seed, paths.weights()); !written)
        return tl::unexpected(written.error());
    return paths.weights();
}

// What every request has.
Result<nlohmann::json> commonRequest(const RunConfig &config, const std::string &model, DType dtype,
                                     const ProbePaths &paths) {
    const auto plan = planRequest(config);
    if (!plan)
        return tl::unexpected(plan.error());
    return nlohmann::json{
        {"model", model},
        {"seed", config.seed},
        {"plan", config.tp == 1 ? nlohmann::json() : plan->rules},
        {"plan_base", plan->base},
        {"tp", config.tp},
        {"ep", config.ep},
        {"ep_plan", plan->epRules},
        {"hooks", std::string(name(config.hooks))},
        {"attention",
         config.attention.empty() ? nlohmann::json() : nlohmann::json(config.attention)},
        {"dtype", std::string(torchName(dtype))},
        {"input_ids", config.inputIds},
        {"threads", config.threads},
        {"timeout_seconds", config.timeout.count()},
        {"result", paths.result().string()},
        {"events", paths.events().string()},
    };
}

Result<nlohmann::json> modelRequest(const RunInput &input, const ProbePaths &paths) {
    const auto folder = modelFolder(input, paths);
    if (!folder)
        return tl::unexpected(folder.error());
    return commonRequest(input.config, folder->string(), input.model.dtype, paths);
}

nlohmann::json oracleEntry(const OracleRequest &request, DType dtype) {
    return {{"logits", request.logits},
            {"gradients", request.gradients},
            {"decode_steps", request.decodeSteps},
            {"micro_steps", request.microSteps},
            {"trainable", request.trainable},
            {"gradient_checkpointing", request.gradientCheckpointing},
            {"tolerance", oracleTolerance(dtype)}};
}

// ids: no prompt means ids of the model's vocabulary, which the library knows.
void addOracle(const OracleRequest &request, DType dtype, nlohmann::json &json) {
    json["oracle"] = oracleEntry(request, dtype);
    if (request.config.inputIds.empty())
        json["input_ids"] = nullptr;
}

} // namespace

Result<nlohmann::json> probeRequest(const RunInput &input, const ProbePaths &paths,
                                    bool waitForGo) {
    const RunConfig &config = input.config;
    auto common = modelRequest(input, paths);
    if (!common)
        return common;
    nlohmann::json request = std::move(*common);
    nlohmann::json measures = {"latency", "collectives"};
    if (config.compile)
        measures.push_back("graphs");
    if (!config.logitsFile.empty())
        measures.push_back("logits");
    request["measure"] = measures;
    request["execution"] = config.compile ? "compile" : "eager";
    request["compile_backend"] = config.compileBackend;
    request["new_tokens"] = config.newTokens;
    request["warmup_tokens"] = config.warmupTokens;
    request["repeats"] = config.repeat;
    request["recompile_limit"] = config.recompileLimit;
    request["wait_seconds"] = config.timeout.count();
    if (!config.logitsFile.empty())
        request["logits"] = paths.logits().string();
    if (waitForGo)
        request["go"] = paths.go().string();
    return request;
}

Result<nlohmann::json> oracleProbeRequest(const RunInput &input, const OracleRequest &request,
                                          const ProbePaths &paths) {
    auto json = modelRequest(input, paths);
    if (json)
        addOracle(request, input.model.dtype, *json);
    return json;
}

Result<nlohmann::json> twinProbeRequest(const TwinRequest &request, const ProbePaths &paths) {
    const RunConfig &config = request.oracle.config;
    auto json = commonRequest(config, config.modelArgument, DType::F32, paths);
    if (!json)
        return json;
    addOracle(request.oracle, DType::F32, *json);
    (*json)["hooks"] = request.hooks ? std::string(name(*request.hooks)) : "native";
    (*json)["twin"] = {{"name", config.modelArgument},
                       {"config", request.config ? nlohmann::json(request.config->string()) : nlohmann::json()}};
    return json;
}

} // namespace tpscope
