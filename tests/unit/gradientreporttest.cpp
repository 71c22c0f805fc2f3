// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include <nlohmann/json.hpp>

#include "run/gradientreport.h"

using namespace tpscope;
using Vector = std::vector<double>;

// Causes of wrong gradients, by rule, from gradients made up for two ranks.
class GradientReportTest : public QObject {
    Q_OBJECT

    static double product(const Vector &a, const Vector &b) {
        double sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
            sum += a[i] * b[i];
        return sum;
    }

    static Vector plus(const Vector &a, const Vector &b, double factor) {
        Vector sum = a;
        for (std::size_t i = 0; i < a.size(); ++i)
            sum[i] += factor * b[i];
        return sum;
    }

    static GradientFacts facts(const Vector &truth, const std::vector<Vector> &ranks, int reductions, bool asksSync) {
        GradientFacts out;
        out.name = "model.layers.0.self_attn.q_norm.weight";
        out.asksSync = asksSync;
        Vector sum(truth.size(), 0.0);
        for (const Vector &rank : ranks)
            sum = plus(sum, rank, 1.0);
        out.sumError = product(plus(sum, truth, -1), plus(sum, truth, -1));
        for (const Vector &rank : ranks) {
            const Vector error = plus(rank, truth, -1);
            const Vector apart = plus(rank, sum, -1.0 / static_cast<double>(ranks.size()));
            out.spread = std::max(out.spread, product(apart, apart));
            out.ranks.push_back({product(rank, truth), product(truth, truth), product(rank, rank),
                                 product(error, error), 0.5, reductions});
        }
        return out;
    }

    static std::string causeOf(const GradientFacts &given, int microSteps = 1) {
        const GradientReport report = judgeGradients({given}, microSteps, DType::F32);
        const auto &cause = report.parameters.front().cause;
        return cause ? std::string(name(*cause)) : "exact";
    }

    const Vector truth{1.0, -2.0, 3.0};
    const Vector part{0.3, -1.5, 0.1};
    const Vector rest = plus(truth, part, -1);

private slots:
    void causes() {
        const auto times = [&](double factor) { return std::vector<Vector>(2, plus(truth, truth, factor - 1)); };
        QCOMPARE(causeOf(facts(truth, times(1), 1, true)), "exact");
        QCOMPARE(causeOf(facts(truth, {part, rest}, 0, false)), "partial");
        QCOMPARE(causeOf(facts(truth, {part, rest}, 0, true)), "never synchronised");
        QCOMPARE(causeOf(facts(truth, {part, part}, 0, true)), "never synchronised");
        QCOMPARE(causeOf(facts(truth, times(2), 1, true)), "needless sync p times");
        QCOMPARE(causeOf(facts(truth, times(4), 0, false)), "needless sync p times");
        QCOMPARE(causeOf(facts(truth, times(1.5), 2, true), 2), "repeated reduction");
        QCOMPARE(causeOf(facts(truth, times(7.0 / 3), 3, true), 3), "repeated reduction");
        QCOMPARE(causeOf(facts(truth, times(3), 2, true), 2), "needless sync p times");
        QCOMPARE(causeOf(facts(truth, {part, part}, 0, false)), "wrongly sharded");
        QCOMPARE(causeOf(facts(truth, {part, truth}, 0, false)), "partial");
    }

    void aShardIsJudgedByItsSlice() {
        GradientFacts shards = facts(truth, {truth, part}, 0, false);
        shards.whole = false;
        const GradientReport report = judgeGradients({shards}, 1, DType::F32);
        QCOMPARE(report.parameters.front().cause, GradientCause::WronglySharded);
        QVERIFY(std::abs(report.trueNorm - std::sqrt(2 * product(truth, truth))) < 1e-12);
        QCOMPARE(report.parameters.front().ratios.front(), 1.0);
    }

    // Mathematics makes the gradient of a bias of keys zero; floats leave noise.
    void noiseIsNoError() {
        GradientFacts noise = facts({0, 0, 1e-9}, {{1e-8, 0, 0}, {0, 1e-8, 0}}, 0, false);
        const GradientReport report = judgeGradients({facts(truth, {truth, truth}, 0, false), noise}, 1, DType::F32);
        QVERIFY(report.exact());
    }

    void noNumberIsWrong() {
        QCOMPARE(causeOf(facts(truth, {{NAN, 0, 0}, truth}, 0, false)) == "exact", false);
    }

    void likeLayersFold() {
        GradientFacts first = facts(truth, {part, rest}, 0, false);
        GradientFacts second = first;
        second.name = "model.layers.1.self_attn.q_norm.weight";
        GradientFacts third = facts(truth, {truth, truth}, 1, true);
        third.name = "model.layers.2.self_attn.q_norm.weight";
        const GradientReport report = judgeGradients({first, second, third}, 1, DType::F32);
        const auto folds = foldLayers(report);
        QCOMPARE(folds.size(), std::size_t(2));
        QCOMPARE(folds[0].name, "model.layers.*.self_attn.q_norm.weight");
        QCOMPARE(folds[0].count, 2);
        QCOMPARE(folds[1].name, "model.layers.2.self_attn.q_norm.weight");
    }

    void survivesTheWay() {
        const GradientFacts sent = facts(truth, {part, rest}, 3, true);
        const GradientFacts received =
            gradientFactsFromJson(nlohmann::json::from_cbor(nlohmann::json::to_cbor(toJson(sent))));
        QCOMPARE(toJson(received), toJson(sent));
    }
};

QTEST_APPLESS_MAIN(GradientReportTest)
#include "gradientreporttest.moc"
