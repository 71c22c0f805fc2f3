// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ranksasthreads.h"

using namespace tpscope;
using nlohmann::json;

namespace {

// The steps as they were recorded, each by what it asks of a training.
struct Step {
    const char *name;
    int microSteps = 1;
    bool onlyNorms = false;
    bool checkpointing = false;
    TrainingRequest::Between between = TrainingRequest::Between::Accumulate;
    int forwards = 1;
};
constexpr Step recordedSteps[] = {
    {.name = "backward_1"},
    {.name = "backward_2_accumulated", .microSteps = 2},
    {.name = "backward_3_accumulated", .microSteps = 3},
    {.name = "zero_grad_to_none_then_backward", .microSteps = 2, .between = TrainingRequest::Between::SetToNone},
    {.name = "zero_grad_zeros_then_backward", .microSteps = 2, .between = TrainingRequest::Between::SetToZero},
    {.name = "two_forwards_summed_then_one_backward", .forwards = 2},
    {.name = "only_norms_trainable_backward_1", .onlyNorms = true},
    {.name = "only_norms_trainable_zero_grad_then_backward",
     .microSteps = 2,
     .onlyNorms = true,
     .between = TrainingRequest::Between::SetToNone},
    {.name = "gradient_checkpointing_backward_1", .checkpointing = true},
    {.name = "gradient_checkpointing_zero_grad_then_backward",
     .microSteps = 2,
     .checkpointing = true,
     .between = TrainingRequest::Between::SetToNone},
};

} // namespace

// Gradients and hooks of the native executor against what transformers computed (fixtures/grad_sync.json), and tp
// against one rank.
class GradientTest : public QObject {
    Q_OBJECT

    json m_recorded;
    std::optional<test::Subject> m_subject;
    std::map<std::string, std::vector<float>> m_whole; // gradients of one rank, one backward

    static std::string fixture(const std::string &relative) {
        return std::string(TPSCOPE_TEST_DATA) + "/fixtures/" + relative;
    }

    TrainingRequest request(HookMode hooks, int microSteps = 1) const {
        TrainingRequest request;
        request.ids = {m_recorded["input_ids_and_labels"].get<std::vector<std::int64_t>>()};
        request.hooks = hooks;
        request.microSteps = microSteps;
        request.attention = m_recorded["attn_implementation"].get<std::string>();
        return request;
    }

    static double largestDifference(const std::vector<float> &a, const std::vector<double> &b, double scale = 1.0) {
        double largest = a.size() == b.size() ? 0.0 : INFINITY;
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
            largest = std::max(largest, std::abs(double(a[i]) - scale * b[i]));
        return largest;
    }

private slots:
    void initTestCase() {
        std::ifstream file(fixture("grad_sync.json"));
        m_recorded = json::parse(file);
        m_subject.emplace(test::openSubject(fixture(m_recorded["model"].get<std::string>())));
        const auto whole = test::train(*m_subject, m_subject->plan(1), request(HookMode::None));
        QVERIFY2(whole[0], whole[0] ? "" : whole[0].error().text().c_str());
        for (const auto &[name, gradient] : whole[0]->gradients)
            m_whole.emplace(name, gradient.value);
        QVERIFY(std::abs(whole[0]->losses[0] -
                         m_recorded["versions"]["5.24.0"]["reference_loss_single_process"].get<double>()) < 1e-4);
    }

    void oneRankEqualsTransformers() {
        const json &reference = m_recorded["reference_gradients_single_process"];
        QVERIFY(reference.size() == 4);
        for (const auto &[name, values] : reference.items())
            QVERIFY2(largestDifference(m_whole.at(name), values.get<std::vector<double>>()) < 1e-5, name.c_str());
    }

    void hooksEqualTransformers_data() {
        QTest::addColumn<QString>("version");
        QTest::addColumn<int>("mode");
        QTest::addColumn<int>("step");
        const std::pair<const char *, HookMode> versions[] = {{"5.21.1", HookMode::ModuleBackward},
                                                              {"5.24.0", HookMode::PostAccumulateGrad}};
        for (const auto &[version, mode] : versions) {
            QCOMPARE(m_recorded["versions"][version]["steps"].size(), std::size(recordedSteps)); // none is left out
            for (std::size_t i = 0; i < std::size(recordedSteps); ++i)
                QTest::addRow("%s %s", version, recordedSteps[i].name) << version << int(mode) << int(i);
        }
    }

    void hooksEqualTransformers() {
        QFETCH(QString, version);
        QFETCH(int, mode);
        QFETCH(int, step);
        const Step &asked = recordedSteps[step];
        const bool onlyNorms = asked.onlyNorms;
        const json &recorded = m_recorded["versions"][version.toStdString()]["steps"][asked.name]["norms"];
        TrainingRequest wanted = request(HookMode(mode), asked.microSteps);
        wanted.between = asked.between;
        wanted.forwardsPerBackward = asked.forwards;
        wanted.gradientCheckpointing = asked.checkpointing;
        if (onlyNorms)
            for (const auto &[name, gradient] : recorded.items())
                wanted.trainable.push_back(name);
        const auto ranks = test::train(*m_subject, m_subject->plan(2), wanted);
        for (std::size_t rank = 0; rank < 2; ++rank) {
            QVERIFY2(ranks[rank], ranks[rank] ? "" : ranks[rank].error().text().c_str());
            for (const auto &[name, gradient] : recorded.items()) {
                const auto expected = gradient["per_rank_gradient"][rank].get<std::vector<double>>();
                const double difference =
                    largestDifference(ranks[rank]->gradients.at(name).value, expected);
                QVERIFY2(difference < 1e-5, qPrintable(QString("%1 rank %2: %3").arg(name.c_str()).arg(rank).arg(difference)));
            }
            for (const auto &[name, gradient] : ranks[rank]->gradients)
                QCOMPARE(gradient.trained, !onlyNorms || recorded.contains(name));
        }
    }

    void tensorGradIsExact_data() {
        QTest::addColumn<int>("microSteps");
        QTest::addColumn<bool>("onlyNorms");
        for (const int microSteps : {1, 2, 3})
            for (const bool onlyNorms : {false, true})
                QTest::addRow("%d micro-steps%s", microSteps, onlyNorms ? ", only the norms" : "")
                    << microSteps << onlyNorms;
    }

    void tensorGradIsExact() {
        QFETCH(int, microSteps);
        QFETCH(bool, onlyNorms);
        const json &reference = m_recorded["reference_gradients_single_process"];
        TrainingRequest wanted = request(HookMode::TensorGrad, microSteps);
        if (onlyNorms)
            wanted.trainable = {"*_norm.weight"};
        const auto ranks = test::train(*m_subject, m_subject->plan(2), wanted);
        for (const auto &rank : ranks) {
            QVERIFY(rank);
            for (const auto &[name, values] : reference.items()) {
                QVERIFY(largestDifference(rank->gradients.at(name).value, values.get<std::vector<double>>(),
                                          microSteps) < 1e-5);
                QCOMPARE(rank->gradients.at(name).reductions, microSteps);
            }
        }
    }

    void withoutHooksNormsAreWrong() {
        const json &reference = m_recorded["reference_gradients_single_process"];
        const auto ranks = test::train(*m_subject, m_subject->plan(2), request(HookMode::None));
        for (const auto &[name, values] : reference.items()) {
            const auto truth = values.get<std::vector<double>>();
            QVERIFY(largestDifference(ranks[0]->gradients.at(name).value, truth) > 1e-3);
            // Each rank has its own heads' part; together they are the truth.
            std::vector<float> sum = ranks[0]->gradients.at(name).value;
            for (std::size_t i = 0; i < sum.size(); ++i)
                sum[i] += ranks[1]->gradients.at(name).value[i];
            QVERIFY(largestDifference(sum, truth) < 1e-5);
        }
    }

    void hookCounts_data() {
        QTest::addColumn<int>("mode");
        QTest::addColumn<int>("afterLoad");
        QTest::addColumn<int>("afterForward");
        const auto count = [&](const char *version, const char *moment) {
            int sum = 0;
            for (const auto &[kind, n] : m_recorded["versions"][version][moment].items())
                sum += n.get<int>();
            return sum;
        };
        QTest::newRow("none") << int(HookMode::None) << 0 << 0;
        QTest::newRow("module-backward") << int(HookMode::ModuleBackward) << count("5.21.1", "hooks_after_load")
                                         << count("5.21.1", "hooks_after_first_grad_forward");
        QTest::newRow("post-accumulate-grad")
            << int(HookMode::PostAccumulateGrad) << count("5.24.0", "hooks_after_load")
            << count("5.24.0", "hooks_after_first_grad_forward");
        QTest::newRow("tensor-grad") << int(HookMode::TensorGrad) << 4 << 4;
    }

    void hookCounts() {
        QFETCH(int, mode);
        QFETCH(int, afterLoad);
        QFETCH(int, afterForward);
        const auto ranks = test::train(*m_subject, m_subject->plan(2), request(HookMode(mode), 2));
        QCOMPARE(ranks[1]->hooks.afterLoad, afterLoad);
        QCOMPARE(ranks[1]->hooks.afterFirstForward, afterForward);
        QCOMPARE(ranks[1]->hooks.afterSteps, afterForward);
    }

    void everyGradientIsThatOfOneRank_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("tp");
        QTest::addColumn<int>("collectives");
        for (const auto &entry : std::filesystem::directory_iterator(fixture("sharding"))) {
            std::ifstream file(entry.path());
            const json recorded = json::parse(file);
            if (recorded["logits_vs_single_process"]["grad"].is_object())
                QTest::addRow("%s", entry.path().stem().c_str())
                    << QString::fromStdString(recorded["model"].get<std::string>()) << recorded["tp"].get<int>()
                    << int(recorded["tp"] == 4 ? Collectives::OneShot : Collectives::Gloo);
        }
    }

    void everyGradientIsThatOfOneRank() {
        QFETCH(QString, model);
        QFETCH(int, tp);
        QFETCH(int, collectives);
        const auto subject = test::openSubject(fixture("models/" + model.toStdString()));
        const TrainingRequest wanted = request(HookMode::PostAccumulateGrad);
        const auto whole = test::train(subject, subject.plan(1), wanted);
        const ResolvedPlan plan = subject.plan(tp);
        const auto ranks = test::train(subject, plan, wanted, Collectives(collectives));
        for (const auto &rank : ranks)
            QVERIFY2(rank, rank ? "" : rank.error().text().c_str());
        QVERIFY(std::abs(ranks[0]->losses[0] - whole[0]->losses[0]) < 1e-4);
        const ShardLayout layout = shardLayout(subject.model, plan);
        QCOMPARE(layout.parameters.size(), whole[0]->gradients.size());
        for (const ParameterShard &shard : layout.parameters) {
            for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
                const auto truth = test::sliceOf(shard, rank, whole[0]->gradients.at(shard.name).value);
                const double difference = largestDifference(ranks[rank]->gradients.at(shard.name).value,
                                                            std::vector<double>(truth.begin(), truth.end()));
                QVERIFY2(difference < 2e-5, qPrintable(QString("%1: %2").arg(shard.name.c_str()).arg(difference)));
            }
        }
    }
};

QTEST_APPLESS_MAIN(GradientTest)
#include "gradienttest.moc"
