// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/proberequest.h"

#include "base/resources.h"
#include "probe/randommodel.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

struct PlanRequest {
    nlohmann::json rules; // "auto", null or an object
    std::string base = "builtin";
};

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
    if (!document->hasTpPlan || !document->tpPlanIsMapping)
        return request; // upstream takes the model's own plan
    request.rules = nlohmann::json::object();
    for (const PlanRule &rule : document->rules)
        request.rules[rule.key] = rule.style; // a key given twice: the last one wins, as in Python
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

} // namespace

Result<nlohmann::json> probeRequest(const RunInput &input, const ProbePaths &paths,
                                    bool waitForGo) {
    const RunConfig &config = input.config;
    const auto plan = planRequest(config);
    if (!plan)
        return tl::unexpected(plan.error());
    const auto folder = modelFolder(input, paths);
    if (!folder)
        return tl::unexpected(folder.error());
    nlohmann::json measures = {"latency", "collectives"};
    if (config.compile)
        measures.push_back("graphs");
    if (!config.logitsFile.empty())
        measures.push_back("logits");
    nlohmann::json request = {
        {"model", folder->string()},
        {"seed", config.seed},
        {"plan", config.tp == 1 ? nlohmann::json() : plan->rules},
        {"plan_base", plan->base},
        {"tp", config.tp},
        {"hooks", std::string(name(config.hooks))},
        {"execution", config.compile ? "compile" : "eager"},
        {"compile_backend", config.compileBackend},
        {"attention",
         config.attention.empty() ? nlohmann::json() : nlohmann::json(config.attention)},
        {"dtype", std::string(torchName(input.model.dtype))},
        {"input_ids", config.inputIds},
        {"new_tokens", config.newTokens},
        {"warmup_tokens", config.warmupTokens},
        {"repeats", config.repeat},
        {"recompile_limit", config.recompileLimit},
        {"measure", measures},
        {"threads", config.threads},
        {"timeout_seconds", config.timeout.count()},
        {"wait_seconds", config.timeout.count()},
        {"result", paths.result().string()},
        {"events", paths.events().string()},
    };
    if (!config.logitsFile.empty())
        request["logits"] = paths.logits().string();
    if (waitForGo)
        request["go"] = paths.go().string();
    return request;
}

} // namespace tpscope
