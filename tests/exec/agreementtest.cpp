// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "../support/randomplans.h"
#include "lint/codes.h"
#include "nativeoutcome.h"

using namespace tpscope;

// Lint and execution agree on plans nobody wrote: what lint calls ok is right when it is run natively, what is wrong when
// it is run is an error of lint, and where lint alone is against a plan, the reason is one of upstream's own.
// TPSCOPE_AGREEMENT_PLANS: how many plans altogether (2000); TPSCOPE_AGREEMENT_SEED: others than the usual ones.
class AgreementTest : public QObject {
    Q_OBJECT

    static std::string fixture(const std::string &relative) {
        return std::string(TPSCOPE_TEST_DATA) + "/fixtures/" + relative;
    }
    static int option(const char *name, int otherwise) {
        const char *given = std::getenv(name);
        return given ? std::atoi(given) : otherwise;
    }
    static QString codesOf(const LintReport &report) {
        QString text;
        for (const Diagnostic &diagnostic : report.diagnostics)
            if (diagnostic.severity == Severity::Error)
                text += QString::fromStdString("\n    " + diagnostic.code + " " + diagnostic.message);
        return text;
    }
    static bool hasCode(const LintReport &report, std::string_view code) {
        return std::ranges::any_of(report.diagnostics, [&](const Diagnostic &d) { return d.code == code; });
    }
    // Upstream refuses or fails for reasons of its own classes, where the arithmetic itself could be done. Each is backed by
    // recorded runs in fixtures/plan_errors.json or recorded/plan_outcomes.json.
    static bool upstreamOnly(const LintReport &report) {
        static const std::set<std::string> codes{
            "TP123", // grouped_mm refuses strides that are no multiple of 16 bytes
        };
        for (const Diagnostic &diagnostic : report.diagnostics)
            if (diagnostic.severity == Severity::Error && codes.contains(diagnostic.code))
                return true;
        return false;
    }

private slots:
    void lintIsWhatHappens_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("plans");
        std::vector<std::string> models;
        for (const auto &entry : std::filesystem::directory_iterator(fixture("models")))
            models.push_back(entry.path().filename().string());
        std::ranges::sort(models);
        const int plans = option("TPSCOPE_AGREEMENT_PLANS", 2000);
        for (const std::string &model : models)
            QTest::addRow("%s", model.c_str()) << QString::fromStdString(model)
                                               << (plans + int(models.size()) - 1) / int(models.size());
    }

    void lintIsWhatHappens() {
        QFETCH(QString, model);
        QFETCH(int, plans);
        std::vector<std::int64_t> ids;
        for (std::int64_t i = 0; i < 12; ++i)
            ids.push_back((i * 37 + 11) % 250);
        const test::NativeJudge judge(fixture("models/" + model.toStdString()), ids);
        const test::Subject &subject = judge.subject();
        test::RandomPlans random(subject.model, *subject.builtin,
                                 std::uint64_t(option("TPSCOPE_AGREEMENT_SEED", 1)) * 1000 +
                                     std::hash<std::string>()(model.toStdString()) % 1000);
        std::map<std::string, int> seen;
        QStringList disagreements;
        int tooMany = 0;
        for (int executed = 0; executed < plans;) {
            const test::RandomPlan plan = random.next(2, 4);
            LintOptions options;
            options.train = true;
            const LintReport report = lint(subject.model, plan.choice(), &*subject.builtin, plan.tp, options);
            // Most mistakes end in a forward error, which says little: no more than half of what is run.
            if (report.outcome == Outcome::Rejected ||
                (report.outcome == Outcome::ForwardError && 2 * seen["forward-error"] > executed))
                continue;
            ++seen[std::string(name(report.outcome))];
            ++executed;
            const test::NativeOutcome native = judge.judge(subject.plan(plan.tp, plan.choice()));
            if (native.outcome == Outcome::NotChecked) {
                ++seen["not run"];
                continue;
            }
            const std::set<std::string> told(report.wrongParameters.begin(), report.wrongParameters.end());
            const bool raised = native.outcome == Outcome::WrongGradients && native.wrongParameters.empty();
            const bool same = native.outcome == report.outcome && (raised || std::ranges::includes(told, native.wrongParameters));
            if (same && !raised && told != native.wrongParameters)
                ++tooMany;
            // Right but for a norm's eps, as lint says.
            if (native.outcome == Outcome::WrongLogits && hasCode(report, code::scaleHidden))
                continue;
            if (same || (report.outcome != Outcome::Ok && upstreamOnly(report)))
                continue;
            QString wrong;
            for (const std::string &parameter : report.wrongParameters)
                wrong += QString::fromStdString(" " + parameter);
            disagreements << QString("%1\n  lint: %2%3\n  wrong:%4\n  native: %5 %6")
                                 .arg(plan.text().c_str(), std::string(name(report.outcome)).c_str(), codesOf(report),
                                      wrong, std::string(name(native.outcome)).c_str(), native.why.c_str());
        }
        QString summary;
        for (const auto &[outcome, count] : seen)
            summary += QString(" %1 %2").arg(count).arg(outcome.c_str());
        qInfo().noquote() << model << summary << "," << tooMany << "with more parameters told than are wrong";
        // Channels of one gradient are not told apart, which now and then blames a parameter too many.
        QVERIFY2(seen["not run"] * 10 <= plans, qPrintable(QString("%1 of %2").arg(seen["not run"]).arg(plans)));
        QVERIFY2(tooMany * 50 <= plans, qPrintable(QString("%1 of %2").arg(tooMany).arg(plans)));
        QVERIFY2(disagreements.isEmpty(),
                 qPrintable(QString("%1 of %2\n").arg(disagreements.size()).arg(plans) + disagreements.join('\n')));
    }
};

// Many plans take longer than the five minutes that Qt gives a function.
int main(int argc, char **argv) {
    if (!qEnvironmentVariableIsSet("QTEST_FUNCTION_TIMEOUT"))
        qputenv("QTEST_FUNCTION_TIMEOUT", "7200000");
    AgreementTest test;
    return QTest::qExec(&test, argc, argv);
}
#include "agreementtest.moc"
