// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/twin.h"

#include <algorithm>
#include <array>
#include <set>

#include "model/moduletree.h"
#include "probe/probesession.h"
#include "probe/transformersoracle.h"
#include "run/oraclemessages.h"

namespace tpscope {
namespace {

using nlohmann::json;
using Verdict = TwinCheck::Verdict;

std::string parentOf(const std::string &name) {
    const auto dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(0, dot);
}

// Which rules of the effective plan act on a module or parameter.
class Rules {
public:
    Rules(const json &plan, const std::optional<PlanDocument> &document) {
        for (const auto &[key, style] : plan.items()) {
            TwinRule rule{key, style.get<std::string>(), {}};
            if (document)
                for (const PlanRule &written : document->rules)
                    if (written.key == key)
                        rule.span = written.keySpan;
            m_rules.push_back(std::move(rule));
        }
    }
    // Its own rule or its module's; for a module without one, those of what it consists of.
    std::vector<TwinRule> of(const std::string &genericName) const {
        for (const std::string &key : {genericName, parentOf(genericName)})
            for (const TwinRule &rule : m_rules)
                if (!key.empty() && rule.key == key)
                    return {rule};
        std::vector<TwinRule> inside;
        for (const TwinRule &rule : m_rules)
            if (rule.key.starts_with(genericName + "."))
                inside.push_back(rule);
        return inside;
    }
    // Those that the file itself has for modules beside it: what fails in one is often asked for at another.
    std::vector<TwinRule> beside(const std::string &genericName) const {
        std::vector<TwinRule> found;
        for (const TwinRule &rule : m_rules)
            if (rule.span.valid() && parentOf(rule.key) == parentOf(genericName))
                found.push_back(rule);
        return found;
    }

private:
    std::vector<TwinRule> m_rules;
};

// The file's rules whose key or style the library quotes in refusing the plan.
std::vector<TwinRule> quotedRules(const std::string &message, const std::optional<PlanDocument> &document) {
    const std::string blamed = message.substr(0, message.find("Supported styles"));
    std::vector<TwinRule> found;
    for (const PlanRule &rule : document ? document->rules : std::vector<PlanRule>{})
        if (blamed.find("'" + rule.key + "'") != std::string::npos ||
            blamed.find("'" + rule.style + "'") != std::string::npos)
            found.push_back({rule.key, rule.style, rule.keySpan});
    return found;
}

class Checks {
public:
    explicit Checks(Rules rules) : m_rules(std::move(rules)) {}

    void add(const char *name, Verdict verdict, std::string message, const std::vector<std::string> &names = {}) {
        TwinCheck check{name, verdict, std::move(message), {}, {}};
        for (const std::string &full : names)
            if (const std::string generic = genericName(full);
                std::ranges::find(check.names, generic) == check.names.end())
                check.names.push_back(generic);
        const bool forward = check.name == "logits" || verdict == Verdict::Failed;
        for (const std::string &generic : check.names) {
            addRules(m_rules.of(generic), check);
            if (forward)
                addRules(m_rules.beside(generic), check);
        }
        m_checks.push_back(std::move(check));
    }
    void addRefusal(std::string message, std::vector<TwinRule> rules) {
        m_checks.push_back({"load", Verdict::Failed, std::move(message), {}, std::move(rules)});
    }
    std::vector<TwinCheck> take() { return std::move(m_checks); }

private:
    static void addRules(std::vector<TwinRule> rules, TwinCheck &check) {
        for (TwinRule &rule : rules)
            if (std::ranges::find(check.rules, rule.key, &TwinRule::key) == check.rules.end())
                check.rules.push_back(std::move(rule));
    }

    Rules m_rules;
    std::vector<TwinCheck> m_checks;
};

struct Differences {
    std::vector<std::string> names;
    std::string text;
};

// {"different", "missing", "unexpected"}: lists of names.
Differences differencesOf(const json &facts) {
    Differences out;
    for (const char *kind : {"different", "missing", "unexpected"}) {
        const auto names = facts.at(kind).get<std::vector<std::string>>();
        if (names.empty())
            continue;
        out.text += (out.text.empty() ? "" : ", ") + std::to_string(names.size()) + " " + kind;
        out.names.insert(out.names.end(), names.begin(), names.end());
    }
    return out;
}

std::string failureOf(const OracleReport &report) { return report.failureKind + ": " + report.failure; }

void addLoad(const json &facts, const OracleReport &report, const TwinRequest &request, Checks &checks) {
    if (report.failedStage == oracle::loadStage)
        return checks.addRefusal(failureOf(report), quotedRules(report.failure, request.plan));
    if (!facts.contains("load"))
        return checks.add("load", Verdict::NotChecked, "");
    const Differences found = differencesOf(facts.at("load"));
    if (found.names.empty())
        return checks.add("load", Verdict::Right, "each rank holds its part of the original weights");
    checks.add("load", Verdict::Wrong, "a rank's weights are no part of the original: " + found.text, found.names);
}

// The module in which the ranks raised, where they could tell.
std::vector<std::string> raisingModule(const json &result) {
    const json module = result.value("module", json());
    return module.is_string() ? std::vector{module.get<std::string>()} : std::vector<std::string>{};
}

void addLogits(const OracleReport &report, const json &result, Checks &checks) {
    if (report.failedStage == oracle::forwardStage) {
        return checks.add("logits", Verdict::Failed, "the forward raises " + failureOf(report), raisingModule(result));
    }
    if (!report.logits)
        return checks.add("logits", Verdict::NotChecked, "");
    char text[96];
    std::snprintf(text, sizeof text, "largest error %.3g, rounding may take %.3g", report.logits->maxAbsError,
                  report.logits->tolerance);
    if (report.logits->right())
        return checks.add("logits", Verdict::Right, text);
    std::string message = report.logits->shapesDiffer ? "another shape than one process'" : std::string(text);
    std::vector<std::string> names;
    if (report.divergence) {
        names.push_back(report.divergence->module);
        message += "; first diverging: " + report.divergence->module;
    }
    checks.add("logits", Verdict::Wrong, message, names);
}

void addGradients(const OracleReport &report, const json &result, Checks &checks) {
    if (report.failedStage == oracle::trainingStage) {
        return checks.add("gradients", Verdict::Failed, "a training step raises " + failureOf(report), raisingModule(result));
    }
    if (!report.gradients)
        return checks.add("gradients", Verdict::NotChecked, "");
    std::vector<std::string> names;
    std::set<std::string> causes;
    for (const ParameterGradient &parameter : report.gradients->parameters)
        if (parameter.cause) {
            names.push_back(parameter.name);
            causes.insert(std::string(name(*parameter.cause)) + ": " + parameter.explanation);
        }
    const std::string all = std::to_string(report.gradients->parameters.size());
    if (names.empty())
        return checks.add("gradients", Verdict::Right, "all " + all + " are exact");
    std::string message = std::to_string(names.size()) + " of " + all + " are wrong";
    for (const std::string &cause : causes)
        message += "; " + cause;
    checks.add("gradients", Verdict::Wrong, message, names);
}

void addSave(const json &facts, Checks &checks) {
    if (!facts.contains("save"))
        return checks.add("save", Verdict::NotChecked, "");
    const json &save = facts.at("save");
    if (save.at("error").is_string())
        return checks.add("save", Verdict::Failed,
                          save.at("stage").get<std::string>() + " raises " + save.at("error").get<std::string>());
    const Differences found = differencesOf(save);
    if (found.names.empty())
        return checks.add("save", Verdict::Right, "the saved model, loaded by one process, is the original");
    checks.add("save", Verdict::Wrong, "the saved model is not the original: " + found.text, found.names);
}

void addHooks(const json &facts, Checks &checks) {
    if (!facts.contains("hooks"))
        return checks.add("hooks", Verdict::NotChecked, "");
    const json &hooks = facts.at("hooks");
    const json &last = hooks.contains("at_end") ? hooks.at("at_end") : hooks.at("after_load");
    const auto modules = hooks.at("after_load").at("module_backward").get<std::vector<std::string>>();
    const auto parameters = last.at("post_accumulate_grad").get<std::vector<std::string>>();
    if (modules.empty())
        return checks.add("hooks", Verdict::Right,
                          parameters.empty() ? "no module and no parameter has a backward hook"
                                             : "no module hook breaks a graph; parameters are summed after accumulation",
                          parameters);
    std::string message = "a backward hook on a module breaks the graph under torch.compile";
    if (const auto graphs = facts.find("graphs"); graphs != facts.end() && graphs->contains("graph_breaks"))
        message += ": " + std::to_string(graphs->at("graph_breaks").get<int>()) + " breaks, " +
                   std::to_string(graphs->at("launches").get<int>()) + " launches in a prefill of the twin";
    checks.add("hooks", Verdict::Breaks, message, modules);
}

// Wrong weights and checkpoints are failures of the whole.
void addToVerdict(TwinReport &report) {
    if (report.oracle.verdict != OracleReport::Verdict::Right)
        return;
    for (const TwinCheck &check : report.checks)
        if ((check.name == "load" || check.name == "save") &&
            (check.verdict == Verdict::Wrong || check.verdict == Verdict::Failed)) {
            report.oracle.verdict = OracleReport::Verdict::Failed;
            report.oracle.failedStage = check.name;
            report.oracle.failure = check.message;
            return;
        }
}

void readTwin(const json &twin, TwinReport &report) {
    twin.at("model_type").get_to(report.modelType);
    twin.at("class").get_to(report.modelClass);
    twin.at("parameters").get_to(report.parameters);
    twin.at("layers").get_to(report.layers);
    report.changes = twin.at("changes");
}

json toJson(const TwinCheck &check) {
    json rules = json::array();
    for (const TwinRule &rule : check.rules)
        rules.push_back({{"rule", rule.key},
                         {"style", rule.style},
                         {"line", rule.span.line},
                         {"column", rule.span.column}});
    return {{"check", check.name},
            {"verdict", name(check.verdict)},
            {"message", check.message},
            {"names", check.names},
            {"rules", std::move(rules)}};
}

} // namespace

std::string_view name(Verdict verdict) {
    constexpr std::array<std::string_view, 5> names{"right", "wrong", "failed", "breaks", "not checked"};
    return names[static_cast<std::size_t>(verdict)];
}

Result<TwinReport> twinReportOf(const json &result, const TwinRequest &request) {
    auto oracle = oracleReportOf(result, request.oracle, DType::F32);
    if (!oracle)
        return tl::unexpected(oracle.error());
    TwinReport report;
    report.oracle = std::move(*oracle);
    try {
        const json facts = result.value("facts", json::object());
        readTwin(facts.at("twin"), report);
        Checks checks(Rules(facts.value("plan", json::object()), request.plan));
        addLoad(facts, report.oracle, request, checks);
        addLogits(report.oracle, result, checks);
        addGradients(report.oracle, result, checks);
        addSave(facts, checks);
        addHooks(facts, checks);
        report.checks = checks.take();
        if (facts.contains("one_process"))
            if (const Differences lost = differencesOf(facts.at("one_process")); !lost.names.empty())
                report.oracle.statements.push_back(
                    "one process does not get its own weights back from save_pretrained either: " + lost.text + ", " +
                    lost.names.front() + " first");
    } catch (const json::exception &error) {
        return fail(ErrorCode::RunFailed,
                    std::string("the transformers run's result lacks a value: ") + error.what());
    }
    addToVerdict(report);
    return report;
}

Result<TwinReport> examineTwin(const TwinRequest &request, EventSink &sink, std::stop_token stop) {
    const auto result = runProbeOracle(
        request.oracle, [&](const ProbePaths &paths) { return twinProbeRequest(request, paths); }, sink,
        std::move(stop));
    if (!result)
        return tl::unexpected(result.error());
    return twinReportOf(*result, request);
}

json toJson(const TwinReport &report, const TwinRequest &request) {
    json out = toJson(report.oracle, request.oracle);
    if (!request.hooks)
        out["hooks"] = "native";
    out["twin"] = {{"model_type", report.modelType},
                   {"class", report.modelClass},
                   {"parameters", report.parameters},
                   {"layers", report.layers},
                   {"changes", report.changes}};
    out["checks"] = json::array();
    for (const TwinCheck &check : report.checks)
        out["checks"].push_back(toJson(check));
    return out;
}

} // namespace tpscope
