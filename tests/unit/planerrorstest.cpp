// SPDX-License-Identifier: GPL-3.0-or-later
// The outcome of each recorded plan, and the parameters whose gradients were wrong, against what transformers did.
#include <QtTest>
#include <map>
#include <set>

#include "../support/recordedmodels.h"

using namespace tpscope;
using nlohmann::json;

namespace {

// DESIGN "Outcome": how recorded verdicts map.
const std::map<std::string, Outcome> outcomes = {
    {"rejected_at_load", Outcome::Rejected},
    {"accepted_then_forward_error", Outcome::ForwardError},
    {"SILENTLY_WRONG_logits", Outcome::WrongLogits},
    {"accepted_wrong_logits_shape", Outcome::WrongLogits},
    {"logits_right_SILENTLY_WRONG_gradients", Outcome::WrongGradients},
    {"ok", Outcome::Ok},
    {"ok_with_warning", Outcome::Ok},
    {"accepted_but_nothing_sharded", Outcome::Ok},
};

std::set<std::string> wrongGradients(const json &entry) {
    std::set<std::string> names;
    const auto add = [&](const json &rank) {
        if (rank.contains("wrong_gradients"))
            for (const auto &[name, value] : rank["wrong_gradients"].items())
                names.insert(name);
    };
    add(entry);
    if (entry.contains("other_ranks"))
        for (const auto &[number, rank] : entry["other_ranks"].items())
            add(rank);
    return names;
}

std::string text(const LintReport &report) {
    std::string out(name(report.outcome));
    for (const Diagnostic &diagnostic : report.diagnostics)
        out += "\n  " + diagnostic.code + " " + diagnostic.message;
    return out;
}

} // namespace

class PlanErrorsTest : public QObject {
    Q_OBJECT
private slots:
    void outcome_data();
    void outcome();
    void executedPlans();
    void expertParallelPlans_data();
    void expertParallelPlans();
};

void PlanErrorsTest::outcome_data() {
    QTest::addColumn<int>("index");
    QTest::addColumn<QString>("attention");
    const json cases = recorded::readJson(recorded::dataDir() / "fixtures" / "plan_errors.json")["cases"];
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const std::string title = cases[i]["case"];
        QTest::newRow(title.c_str()) << static_cast<int>(i) << QString();
        if (cases[i].contains("verdict_eager_attention"))
            QTest::newRow((title + " eager").c_str()) << static_cast<int>(i) << QString("eager");
    }
}

void PlanErrorsTest::outcome() {
    QFETCH(int, index);
    QFETCH(QString, attention);
    static const json cases = recorded::readJson(recorded::dataDir() / "fixtures" / "plan_errors.json")["cases"];
    const json &entry = cases[static_cast<std::size_t>(index)];
    const json extra = entry.value("extra", json::object());
    if (extra.contains("tp_size") && extra["tp_size"] > entry["tp"])
        QSKIP("how many processes there are is no matter of the plan");
    const json changes = recorded::changesOf(extra);
    const auto subject = recorded::load(entry["model"], changes);
    if (!subject)
        QSKIP("the model's family is not described yet");
    // Without a size and without a plan upstream takes one rank.
    const int tp = extra.contains("no_tp_size") && entry["plan"].is_null() ? 1 : extra.value("tp_size", entry["tp"].get<int>());

    LintOptions options;
    options.train = true;
    options.attention = attention.toStdString();
    const LintReport report = lint(subject->model, recorded::choiceOf(entry["plan"], extra), &subject->builtin, tp, options);
    const std::string verdict = entry[attention.isEmpty() ? "verdict" : "verdict_eager_attention"];
    QVERIFY2(outcomes.contains(verdict), verdict.c_str());
    QVERIFY2(report.outcome == outcomes.at(verdict), (verdict + " recorded, found " + text(report)).c_str());
    if (report.outcome == Outcome::Ok) {
        QVERIFY2(report.wrongParameters.empty(), text(report).c_str());
        QCOMPARE(report.errors(), 0);
        QVERIFY2(verdict == "ok" || report.warnings() > 0, text(report).c_str());
    } else {
        QVERIFY2(report.errors() > 0, text(report).c_str());
    }
    if (report.outcome == Outcome::WrongGradients && attention.isEmpty() && !entry.contains("backward_error")) {
        const std::set<std::string> found(report.wrongParameters.begin(), report.wrongParameters.end());
        QCOMPARE(found, wrongGradients(entry));
    }
}

// The larger set of plans that were run for this, refused ones included.
void PlanErrorsTest::executedPlans() {
    const json data = recorded::readJson(recorded::dataDir() / "recorded" / "plan_outcomes.json");
    int compared = 0;
    for (const json &row : data["plans"]) {
        const std::string model = row["model"];
        const auto subject = data["configs"].contains(model)
                                 ? std::optional(recorded::describeConfig(data["configs"][model], "config.json"))
                                 : recorded::load(model);
        QVERIFY2(subject, model.c_str());
        LintOptions options;
        options.train = true;
        options.attention = row.value("attention", "");
        const LintReport report = lint(subject->model, recorded::choiceOf(row["plan"], json::object()), &subject->builtin, row["tp"], options);
        QVERIFY2(name(report.outcome) == row["verdict"].get<std::string>(), (row.dump() + " found " + text(report)).c_str());
        QVERIFY2((report.errors() > 0) || report.outcome == Outcome::Ok, (row.dump() + text(report)).c_str());
        if (row.contains("wrong_gradients")) {
            const std::set<std::string> found(report.wrongParameters.begin(), report.wrongParameters.end());
            QVERIFY2(found == row["wrong_gradients"].get<std::set<std::string>>(), row.dump().c_str());
        }
        ++compared;
    }
    QVERIFY(compared > 500);
}

void PlanErrorsTest::expertParallelPlans_data() {
    QTest::addColumn<QString>("row");
    const json data = recorded::readJson(recorded::dataDir() / "recorded" / "expert_outcomes.json");
    for (const json &row : data["plans"])
        QTest::newRow(row["case"].get<std::string>().c_str()) << QString::fromStdString(row.dump());
}

void PlanErrorsTest::expertParallelPlans() {
    QFETCH(QString, row);
    const json entry = json::parse(row.toStdString());
    const json &extra = entry["extra"];
    const auto subject = recorded::load(entry["model"], recorded::changesOf(extra));
    QVERIFY(subject);
    LintOptions options;
    options.train = true;
    const int tp = extra.contains("no_tp_size") && entry["plan"].is_null() ? 1 : entry["tp"].get<int>();
    const LintReport report = lint(subject->model, recorded::choiceOf(entry["plan"], extra), &subject->builtin, tp, options);
    const std::string found = row.toStdString() + " found " + text(report);
    QVERIFY2(name(report.outcome) == entry["verdict"].get<std::string>(), found.c_str());
    QVERIFY2((report.errors() > 0) != (report.outcome == Outcome::Ok), found.c_str());
    if (entry.contains("wrong_gradients")) {
        const std::set<std::string> wrong(report.wrongParameters.begin(), report.wrongParameters.end());
        QVERIFY2(wrong == entry["wrong_gradients"].get<std::set<std::string>>(), found.c_str());
    }
}

QTEST_APPLESS_MAIN(PlanErrorsTest)
#include "planerrorstest.moc"
