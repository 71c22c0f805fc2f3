// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include <algorithm>
#include <random>
#include <set>

#include "../support/randomplans.h"
#include "../support/recordedmodels.h"
#include "exec/instructions.h"
#include "lint/codes.h"
#include "nativeoutcome.h"

using namespace tpscope;
using nlohmann::json;

// Expert parallelism, run natively: the same logits and gradients as without, or what transformers made of the plan.
class ExpertParallelTest : public QObject {
    Q_OBJECT

    static std::string folder(const std::string &model) {
        return (recorded::dataDir() / "fixtures" / "models" / model).string();
    }
    static std::vector<std::int64_t> prompt() {
        std::vector<std::int64_t> ids;
        for (std::int64_t i = 0; i < 12; ++i)
            ids.push_back((i * 37 + 11) % 250);
        return ids;
    }
    // Opened and run on one rank once.
    const test::NativeJudge &judgeOf(const std::string &model) {
        std::unique_ptr<test::NativeJudge> &judge = m_judges[model];
        if (!judge)
            judge = std::make_unique<test::NativeJudge>(folder(model), prompt());
        return *judge;
    }
    static PlanChoice everyRank(int ranks) {
        PlanChoice choice;
        choice.ep = ranks;
        return choice;
    }
    static std::ptrdiff_t count(const InstructionList &list, Step step) {
        return std::ranges::count(list.instructions, step, &Instruction::step);
    }

    std::map<std::string, std::unique_ptr<test::NativeJudge>> m_judges;

private slots:
    void equalsDense_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("ranks");
        for (const char *model : {"mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss"})
            QTest::addRow("%s, 2 ranks", model) << model << 2;
        for (const char *model : {"qwen3_moe_kv4", "deepseek_v3", "gpt_oss"})
            QTest::addRow("%s, 4 ranks", model) << model << 4; // their heads divide, or stay whole
    }

    void equalsDense() {
        QFETCH(QString, model);
        QFETCH(int, ranks);
        const test::NativeJudge &judge = judgeOf(model.toStdString());
        const ResolvedPlan plan = judge.subject().plan(ranks, everyRank(ranks));
        const test::NativeOutcome found = judge.judge(plan);
        QVERIFY2(found.outcome == Outcome::Ok, found.why.c_str());
        // Each rank holds its share of the experts and no other.
        const ShardLayout layout = shardLayout(judge.subject().model, plan);
        int experts = 0;
        for (const ParameterShard &shard : layout.parameters) {
            if (shard.name.find(".mlp.experts.") == std::string::npos)
                continue;
            ++experts;
            QCOMPARE(shard.dim, 0);
            for (const Shape &local : shard.localShapes)
                QCOMPARE(local[0] * ranks, shard.globalShape[0]);
        }
        QVERIFY(experts > 0);
    }

    // Also where ranks exchange over Gloo, with empty parts of the tokens: 3 tokens on 4 ranks.
    void gradientsOverGloo() {
        const test::Subject subject = test::openSubject(folder("deepseek_v3"));
        TrainingRequest request;
        request.ids = {{7, 130, 9}};
        const auto whole = test::train(subject, subject.plan(1), request);
        const ResolvedPlan plan = subject.plan(4, everyRank(4));
        const auto ranks = test::train(subject, plan, request);
        const ShardLayout layout = shardLayout(subject.model, plan);
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            QVERIFY2(ranks[rank], ranks[rank] ? "" : ranks[rank].error().text().c_str());
            QVERIFY(std::abs(ranks[rank]->losses[0] - whole[0]->losses[0]) < 1e-5);
            for (const ParameterShard &shard : layout.parameters) {
                const auto expected = test::sliceOf(shard, rank, whole[0]->gradients.at(shard.name).value);
                const auto &found = ranks[rank]->gradients.at(shard.name).value;
                QCOMPARE(found.size(), expected.size());
                for (std::size_t i = 0; i < found.size(); ++i)
                    QVERIFY2(std::abs(found[i] - expected[i]) < 1e-4F, shard.name.c_str());
            }
        }
    }

    // As many exchanges as transformers makes, per forward, and per forward and backward.
    void collectivesAreThoseOfTransformers_data() {
        QTest::addColumn<QString>("row");
        const json data = recorded::readJson(recorded::dataDir() / "recorded" / "expert_outcomes.json");
        for (const json &row : data["plans"])
            if (row.contains("collectives") && !row["extra"].contains("config") && row["extra"].contains("ep_size"))
                QTest::newRow(row["case"].get<std::string>().c_str()) << QString::fromStdString(row.dump());
    }

    void collectivesAreThoseOfTransformers() {
        QFETCH(QString, row);
        const json entry = json::parse(row.toStdString());
        const test::Subject &subject = judgeOf(entry["model"]).subject();
        const ResolvedPlan plan = subject.plan(entry["tp"], recorded::choiceOf(entry["plan"], entry["extra"]));
        const ShardLayout layout = shardLayout(subject.model, plan);
        const auto inference = lower(subject.model, plan, layout, {});
        QVERIFY(inference);
        const json &recorded = entry["collectives"];
        QCOMPARE(count(*inference, Step::AllReduce), recorded["inference"]["all_reduce"].get<std::ptrdiff_t>());
        QCOMPARE(count(*inference, Step::AllGather), recorded["inference"]["all_gather"].get<std::ptrdiff_t>());
        const auto training = lower(subject.model, plan, layout, {.training = true});
        QVERIFY(training);
        // Tokens go and come with an exchange of counts, and back in the backward; their parts are gathered behind it,
        // and the gradients of states and weights before it.
        const auto dispatched = count(*training, Step::DispatchTokens);
        QVERIFY(dispatched > 0);
        QCOMPARE(5 * dispatched, recorded["training"]["all_to_all"].get<std::ptrdiff_t>());
        QCOMPARE(3 * dispatched + count(*training, Step::AllGather),
                 recorded["training"]["all_gather"].get<std::ptrdiff_t>());
        std::ptrdiff_t hooked = 0;
        for (const Instruction &instruction : training->instructions)
            if (instruction.step == Step::EnterHooked)
                hooked += std::ptrdiff_t(subject.model.tree.at(instruction.module).parameters.size());
        QCOMPARE(count(*training, Step::AllReduce) + count(*training, Step::SumInputGradient) + hooked,
                 recorded["training"]["all_reduce"].get<std::ptrdiff_t>());
    }

    void asTransformers_data() {
        QTest::addColumn<QString>("row");
        const json data = recorded::readJson(recorded::dataDir() / "recorded" / "expert_outcomes.json");
        for (const json &row : data["plans"])
            if (row["verdict"] != "rejected" && !row["extra"].contains("config"))
                QTest::newRow(row["case"].get<std::string>().c_str()) << QString::fromStdString(row.dump());
    }

    void asTransformers() {
        QFETCH(QString, row);
        const json entry = json::parse(row.toStdString());
        const json &extra = entry["extra"];
        const test::NativeJudge &judge = judgeOf(entry["model"]);
        // The config's own plans take part in resolving; what is run is the same model.
        const auto described = recorded::load(entry["model"], recorded::changesOf(extra));
        QVERIFY(described);
        const ResolvedPlan plan = resolvePlan(described->model, recorded::choiceOf(entry["plan"], extra),
                                              &described->builtin, entry["tp"]);
        const test::NativeOutcome found = judge.judge(plan);
        if (found.outcome == Outcome::NotChecked)
            QSKIP(found.why.c_str());
        const json rules = extra.value("ep_plan", json::object());
        for (const auto &[key, style] : rules.items())
            if (key.find(".mlp.experts.act_fn") != std::string::npos && style == "all_reduce")
                QSKIP("what this sums depends on the order in which upstream's experts see their tokens");
        QVERIFY2(name(found.outcome) == entry["verdict"].get<std::string>(),
                 (row.toStdString() + " found " + std::string(name(found.outcome)) + " " + found.why).c_str());
        if (entry.contains("wrong_gradients"))
            QVERIFY2(found.wrongParameters == entry["wrong_gradients"].get<std::set<std::string>>(), found.why.c_str());
    }

    void lintAgreesOnRandomPlans_data() {
        QTest::addColumn<QString>("model");
        for (const char *model : {"mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss"})
            QTest::addRow("%s", model) << model;
    }

    void lintAgreesOnRandomPlans() {
        QFETCH(QString, model);
        const test::NativeJudge &judge = judgeOf(model.toStdString());
        const test::Subject &subject = judge.subject();
        std::mt19937 random(7);
        const std::vector<std::string> keys = expertKeys(subject.model);
        QStringList disagreements;
        std::set<Outcome> seen;
        for (int i = 0; i < 100; ++i) {
            json rules = json::object();
            for (std::size_t n = 1 + random() % 2; n > 0; --n)
                rules[keys[random() % keys.size()]] = parallelStyles()[random() % parallelStyles().size()].name;
            const PlanChoice choice = recorded::choiceOf("auto", json{{"ep_plan", rules}, {"ep_size", 2}});
            LintOptions options;
            options.train = true;
            const LintReport report = lint(subject.model, choice, &*subject.builtin, 2, options);
            if (report.outcome == Outcome::Rejected)
                continue;
            const test::NativeOutcome found = judge.judge(subject.plan(2, choice));
            seen.insert(report.outcome);
            const bool upstreamOnly = std::ranges::any_of( // grouped_mm refuses what we can multiply
                report.diagnostics, [](const Diagnostic &d) { return d.code == code::misaligned; });
            if (found.outcome != Outcome::NotChecked && found.outcome != report.outcome && !upstreamOnly)
                disagreements << QString::fromStdString(rules.dump() + ": lint " + std::string(name(report.outcome)) +
                                                        ", run " + std::string(name(found.outcome)) + " " + found.why);
        }
        QVERIFY2(disagreements.isEmpty(), qPrintable(disagreements.join("\n")));
        QVERIFY(seen.size() > 1);
    }

private:
    static std::vector<std::string> expertKeys(const ModelDescription &model) {
        std::set<std::string> keys;
        for (const Module &module : model.tree.modules) {
            const std::string name = genericName(module.name);
            if (name.find(".mlp") == std::string::npos)
                continue;
            keys.insert(name);
            for (const Parameter &parameter : module.parameters)
                keys.insert(name + "." + parameter.name);
        }
        return {keys.begin(), keys.end()};
    }
};

QTEST_APPLESS_MAIN(ExpertParallelTest)
#include "expertparalleltest.moc"
