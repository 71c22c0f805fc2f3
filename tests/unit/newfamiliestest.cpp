// SPDX-License-Identifier: GPL-3.0-or-later
// Families beyond the first fixtures: their parameters, and the outcome of plans, against what transformers did
// (tests/data/families, see families.py there).
#include <QtTest>
#include <set>

#include "../support/recordedmodels.h"
#include "graph/graphcapture.h"
#include "lint/codes.h"
#include "shard/shardlayout.h"

using namespace tpscope;
using nlohmann::json;

namespace {

std::filesystem::path familiesDir() { return recorded::dataDir() / "families"; }

std::string text(const LintReport &report) {
    std::string out(name(report.outcome));
    for (const Diagnostic &diagnostic : report.diagnostics)
        out += "\n  " + diagnostic.code + " " + diagnostic.message;
    return out;
}

bool has(const LintReport &report, std::string_view code) {
    return std::ranges::find(report.diagnostics, code, &Diagnostic::code) != report.diagnostics.end();
}

const json &recordOf(const std::string &name) {
    static std::map<std::string, json> records;
    const auto [record, isNew] = records.emplace(name, json());
    if (isNew)
        record->second = recorded::readJson(familiesDir() / (name + ".json"));
    return record->second;
}

const recorded::Subject &subjectOf(const std::string &name) {
    static std::map<std::string, recorded::Subject> subjects;
    const auto found = subjects.find(name);
    return found != subjects.end()
               ? found->second
               : subjects.emplace(name, recorded::describeConfig(recordOf(name)["config"], "config.json")).first->second;
}

void addNames() {
    QTest::addColumn<std::string>("name");
    for (const auto &entry : std::filesystem::directory_iterator(familiesDir()))
        if (entry.path().extension() == ".json")
            QTest::newRow(entry.path().stem().c_str()) << entry.path().stem().string();
}

// A factor hidden by a norm is right but for the norm's eps; a permuted tensor is right as the ranks hold it.
bool isWarnedOf(const LintReport &report, const json &row) {
    const std::string outcome = row["outcome"];
    if (outcome == "wrong-logits")
        return has(report, code::scaleHidden);
    return outcome == "wrong-gradients" && has(report, code::permutedSave) && !row.contains("raised") &&
           std::ranges::all_of(row["wrong"], [](const json &name) {
               return name.get<std::string>().find(".experts.") != std::string::npos;
           });
}

} // namespace

class NewFamiliesTest : public QObject {
    Q_OBJECT
private slots:
    void parameters_data() { addNames(); }
    void parameters();
    void outcomes_data() { addNames(); }
    void outcomes();
    void graphs_data();
    void graphs();
};

void NewFamiliesTest::parameters() {
    QFETCH(std::string, name);
    std::map<std::string, Shape> found;
    const recorded::Subject &subject = subjectOf(name);
    const ResolvedPlan plan = resolvePlan(subject.model, {}, &subject.builtin, 2);
    for (const ParameterShard &shard : shardLayout(subject.model, plan).parameters)
        found.emplace(shard.name, shard.globalShape);
    const auto expected = recordOf(name)["parameters"].get<std::map<std::string, Shape>>();
    for (const auto &[parameter, shape] : expected)
        QVERIFY2(found.contains(parameter) && found[parameter] == shape, parameter.c_str());
    for (const auto &[parameter, shape] : found)
        QVERIFY2(expected.contains(parameter), (parameter + " is no parameter of the model").c_str());
}

void NewFamiliesTest::outcomes() {
    QFETCH(std::string, name);
    const recorded::Subject &subject = subjectOf(name);
    LintOptions options;
    options.train = true;
    for (const json &row : recordOf(name)["plans"]) {
        const json plan = row["tp_plan"].empty() ? json("auto") : row["tp_plan"];
        const LintReport report = lint(subject.model, recorded::choiceOf(plan, json::object()), &subject.builtin, 2, options);
        const std::string where = plan.dump() + "\nfound " + text(report) + "\nexpected " + row.dump();
        if (tpscope::name(report.outcome) != row["outcome"].get<std::string>())
            QVERIFY2(isWarnedOf(report, row), where.c_str());
        const std::set<std::string> told(report.wrongParameters.begin(), report.wrongParameters.end());
        if (report.outcome == Outcome::WrongGradients && !row.contains("raised"))
            for (const json &wrong : row.value("wrong", json::array()))
                QVERIFY2(told.contains(wrong.get<std::string>()), (wrong.get<std::string>() + " in " + where).c_str());
    }
}

void NewFamiliesTest::graphs_data() {
    QTest::addColumn<std::string>("name");
    for (const auto &entry : std::filesystem::directory_iterator(familiesDir()))
        if (entry.path().extension() == ".json" && recordOf(entry.path().stem().string()).contains("graphs"))
            QTest::newRow(entry.path().stem().c_str()) << entry.path().stem().string();
}

// Graphs, launches and counted breaks of `auto` under torch.compile, measured on two ranks.
void NewFamiliesTest::graphs() {
    QFETCH(std::string, name);
    const recorded::Subject &subject = subjectOf(name);
    const ResolvedPlan plan = resolvePlan(subject.model, {}, &subject.builtin, 2);
    for (const auto &[hooks, row] : recordOf(name)["graphs"].items()) {
        const HookMode mode = hooks == "module-backward" ? HookMode::ModuleBackward : HookMode::PostAccumulateGrad;
        const auto capture = captureGraphs(subject.model, plan, mode);
        QVERIFY2(capture.has_value(), hooks.c_str());
        for (const auto &[phase, found] : {std::pair{"prefill", &capture->prefill}, std::pair{"decode", &capture->decode}}) {
            const json now = {found->graphs, found->launches, found->breakCounter};
            QVERIFY2(now == row[phase], (hooks + " " + phase + ": " + now.dump() + ", measured " + row[phase].dump()).c_str());
        }
    }
}

QTEST_APPLESS_MAIN(NewFamiliesTest)
#include "newfamiliestest.moc"
