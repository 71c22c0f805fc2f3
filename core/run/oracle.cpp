// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/oracle.h"

#include <nlohmann/json.hpp>

#include "run/costmodel.h"
#include "run/launcher.h"
#include "run/oraclemessages.h"
#include "run/prompts.h"
#include "run/rankrequest.h"

namespace tpscope {

double oracleTolerance(DType dtype) {
    switch (dtype) {
    case DType::F16: return 1e-2;
    case DType::BF16: return 5e-2;
    default: return 1e-4;
    }
}

OracleReport::Verdict judge(const OracleReport &report, const OracleRequest &request) {
    using Verdict = OracleReport::Verdict;
    const bool logitsRight = !request.logits || (report.logits && report.logits->right());
    if (!report.failedStage.empty())
        // A step of training that raises is a matter of gradients where the logits are right.
        return report.failedStage == oracle::trainingStage && logitsRight ? Verdict::WrongGradients : Verdict::Failed;
    if (!logitsRight)
        return Verdict::WrongLogits;
    return report.gradients && !report.gradients->exact() ? Verdict::WrongGradients : Verdict::Right;
}

namespace {

using nlohmann::json;

// Keeps what the ranks say.
class Collector : public RankListener {
public:
    Collector(const ModelDescription &model, EventSink &sink) : m_model(model), m_sink(sink) {}

    void message(int rank, const json &message) override {
        const std::string &type = message["type"].get_ref<const std::string &>();
        if (type == "progress" && rank == 0)
            m_sink.progress({message.value("phase", ""), message.value("message", ""), -1.0});
        else if (type == oracle::failureMessage && (m_failure.is_null() || m_failure.value("secondary", false)))
            m_failure = message; // what a rank says because another one is gone is worth less
        else if (type == oracle::logitsMessage && rank == 0)
            m_logits = message;
        else if (type == oracle::gradientsMessage && rank == 0)
            m_gradients = message;
        else if (type == oracle::environmentMessage && rank == 0)
            m_environment = message;
    }
    void events(int rank, const std::vector<Event> &batch) override { m_sink.events(rank, batch); }
    std::string moduleName(int module) const override {
        const auto index = static_cast<std::size_t>(module);
        if (index >= m_model.tree.modules.size())
            return "?";
        const Module &found = m_model.tree.modules[index];
        return found.name.empty() ? found.className : found.name;
    }

    bool failed() const { return !m_failure.is_null(); }
    OracleReport report(const OracleRequest &request) const; // throws json::exception

private:
    const ModelDescription &m_model;
    EventSink &m_sink;
    json m_failure;
    json m_logits;
    json m_gradients;
    json m_environment;
};

OracleReport Collector::report(const OracleRequest &request) const {
    OracleReport report;
    report.environment = currentEnvironment();
    report.environment.seed = request.config.seed;
    report.environment.threads = request.config.threads;
    report.attention = request.config.attention.empty() ? m_model.attention : request.config.attention;
    report.dtype = torchName(m_model.dtype);
    if (m_environment.is_object())
        for (const auto &[name, version] : m_environment.at("versions").items())
            report.environment.versions[name] = version.get<std::string>();
    if (m_logits.is_object())
        oracle::readLogits(m_logits, report);
    if (m_gradients.is_object())
        oracle::readGradients(m_gradients, request.microSteps, m_model.dtype, report);
    if (failed()) {
        m_failure.at("stage").get_to(report.failedStage);
        m_failure.at("message").get_to(report.failure);
    }
    report.verdict = judge(report, request);
    return report;
}

} // namespace

std::optional<std::map<std::string, CollectiveCount>> predictCollectives(const RunInput &input,
                                                                         const OracleRequest &request) {
    if (!request.trainable.empty() || request.gradientCheckpointing || input.plan.ep > 1 || !input.model.flowKnown() ||
        request.config.inputIds.empty())
        return std::nullopt;
    const PromptBatch prompts = PromptBatch::of(request.config.inputIds);
    auto found = trainingCollectives(input.model, input.plan, request.config.hooks, static_cast<int>(prompts.rows),
                                     static_cast<int>(prompts.tokens));
    return found ? std::optional(std::move(*found)) : std::nullopt;
}

std::string_view name(OracleReport::Verdict verdict) {
    switch (verdict) {
    case OracleReport::Verdict::Right: return "right";
    case OracleReport::Verdict::WrongLogits: return "wrong-logits";
    case OracleReport::Verdict::WrongGradients: return "wrong-gradients";
    case OracleReport::Verdict::Failed: return "failed";
    }
    return "?";
}

Result<OracleReport> runOracle(const RunInput &input, const OracleRequest &request, EventSink &sink,
                               std::stop_token stop, const std::filesystem::path &program) {
    const RunConfig &config = request.config;
    if (!input.model.flowKnown())
        return fail(ErrorCode::Unsupported, "the forward of " + input.model.modelType +
                                                " is not described, so it cannot be run natively");
    if (const auto checked = checkPrompts(config, input.model.dims.vocab); !checked)
        return tl::unexpected(checked.error());
    LaunchOptions options;
    options.program = program;
    options.ranks = config.tp;
    options.threads = config.threads;
    options.port = config.port;
    options.timeout = config.timeout;
    Collector collector(input.model, sink);
    const auto ended = launchRanks(options, requestToJson(request), collector, stop);
    if (!ended && (!collector.failed() || ended.error().code == ErrorCode::Cancelled))
        return tl::unexpected(ended.error());
    try {
        OracleReport report = collector.report(request);
        const bool logitsMissing = request.logits && !report.logits;
        const bool gradientsDue = request.gradients && (!report.logits || report.logits->right());
        if (!collector.failed() && (logitsMissing || (gradientsDue && !report.gradients)))
            return fail(ErrorCode::RunFailed, "the ranks ended without a result");
        return report;
    } catch (const json::exception &error) {
        return fail(ErrorCode::RunFailed, std::string("a rank sent an unreadable result: ") + error.what());
    }
}

} // namespace tpscope
