// SPDX-License-Identifier: GPL-3.0-or-later
#include "measure/comparison.h"

#include <QTest>
#include <nlohmann/json.hpp>

using namespace tpscope;

namespace {

RunTrace trace(Source source, double ms, std::size_t n) {
    RunTrace t;
    t.source = source;
    t.backend = source == Source::Simulated ? Backend::Simulated : Backend::Gloo;
    for (std::size_t i = 0; i < n; ++i)
        t.tokenMs.push_back(ms + 0.01 * static_cast<double>((i * 7) % 11) + 1e-4 * static_cast<double>(i));
    t.outputIds = {{1, 2, 3}};
    t.lastLogits = {0.5f, 1.5f};
    t.environment = currentEnvironment();
    return t;
}

} // namespace

class ComparisonTest : public QObject {
    Q_OBJECT
private slots:
    void verdicts() {
        QVERIFY(compare(trace(Source::Measured, 50, 30), trace(Source::Measured, 40, 30)).verdict == Verdict::Faster);
        QVERIFY(compare(trace(Source::Measured, 40, 30), trace(Source::Measured, 50, 30)).verdict == Verdict::Slower);
        QVERIFY(compare(trace(Source::Measured, 40, 30), trace(Source::Measured, 40, 30)).verdict ==
                Verdict::NoClearDifference);
        QVERIFY(compare(trace(Source::Measured, 50, 30), trace(Source::Measured, 40, fewestSamples - 1)).verdict ==
                Verdict::TooFewSamples);
    }

    void simulatedHasNoInterval() {
        const Comparison c = compare(trace(Source::Simulated, 140, 30), trace(Source::Measured, 37, 30));
        QVERIFY(c.verdict == Verdict::NotMeasured);
        QVERIFY(!c.ci95Ms);
    }

    void logitsAreComparedOnlyAfterTheSameTokens() {
        RunTrace other = trace(Source::Measured, 40, 30);
        other.lastLogits = {0.5f, 1.25f};
        QCOMPARE(*compare(trace(Source::Measured, 40, 30), other).maxAbsLogitError, 0.25);
        other.outputIds = {{9, 2, 3}};
        const Comparison differs = compare(trace(Source::Measured, 40, 30), other);
        QVERIFY(!differs.maxAbsLogitError);
        QVERIFY(!*differs.outputsEqual);
    }

    void repeatsThatDisagreeAreNotEqual() {
        RunTrace odd = trace(Source::Measured, 40, 10);
        odd.outputIds = {{1, 2, 4}};
        const RunTrace pooled = poolRepeats({trace(Source::Measured, 40, 10), odd});
        QCOMPARE(pooled.tokenMs.size(), std::size_t{20});
        QVERIFY(!*compare(pooled, pooled).outputsEqual);
    }

    void jsonRoundTrip() {
        const auto json = toJson(compare(trace(Source::Measured, 50, 30), trace(Source::Measured, 40, 30)));
        const auto read = comparisonFromJson(json, "c.json");
        QVERIFY2(read.has_value(), read ? "" : read.error().text().c_str());
        QVERIFY(toJson(*read) == json);
    }

    void badFilesAreNamed() {
        auto json = toJson(compare(trace(Source::Measured, 50, 30), trace(Source::Measured, 40, 30)));
        json["verdict"] = "better";
        QVERIFY(comparisonFromJson(json, "c.json").error().text().find("verdict") != std::string::npos);
        json.erase("before");
        QVERIFY(comparisonFromJson(json, "c.json").error().text().find("before") != std::string::npos);
    }
};

QTEST_APPLESS_MAIN(ComparisonTest)
#include "comparisontest.moc"
