// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

// Expert parallelism on the command line: --ep, ep_size and ep_plan of a file.
class EpVerbsTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QByteArray &text) {
        QFile file(m_folder.filePath("plan.yaml"));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }
    static QStringList withModel(const QString &verb, const QString &model, const QStringList &more) {
        return QStringList{verb, "--model", fixture("models/" + model), "--format", "json"} + more;
    }

private slots:
    void epAloneMeansAsManyRanks() {
        const ProgramRun run = runTpscope(withModel("lint", "qwen3_moe", {"--ep", "2", "--train"}));
        QCOMPARE(run.exitCode, 0);
        QCOMPARE(run.json()["outcome"].toString(), QString("ok"));
        QCOMPARE(run.json()["bytes_per_rank"].toArray().size(), 2);
    }

    void aSizeThatDoesNotFitIsToldWithItsReason() {
        const ProgramRun run = runTpscope(withModel("lint", "qwen3_moe", {"--tp", "2", "--ep", "3"}));
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["outcome"].toString(), QString("rejected"));
        QVERIFY(run.json()["diagnostics"][0]["message"].toString().contains("multiple of tp_size"));
        QCOMPARE(runTpscope(withModel("lint", "qwen3_moe", {"--ep", "0"})).exitCode, 2);
    }

    void findingsStandInTheEpPlan() {
        const QString file = plan("tp_size: 2\nep_size: 2\ntp_plan: auto\nep_plan:\n"
                                  "  model.layers.*.mlp.experts.down_proj: replicate\n");
        const ProgramRun run = runTpscope(withModel("lint", "mixtral", {"--plan", file}));
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["outcome"].toString(), QString("forward-error"));
        const QJsonValue first = run.json()["diagnostics"][0];
        QCOMPARE(first["line"].toInt(), 5);
        QCOMPARE(first["fix"]["edits"].toArray().size(), 1);
    }

    void aRankHoldsItsExpertsAlone() {
        const ProgramRun run = runTpscope(withModel("shard", "mixtral", {"--tp", "2", "--ep", "2"}));
        int experts = 0;
        for (const QJsonValue &parameter : run.json()["parameters"].toArray()) {
            if (!parameter["name"].toString().contains(".experts."))
                continue;
            ++experts;
            QCOMPARE(parameter["style"].toString(), QString("grouped_gemm"));
            QCOMPARE(parameter["placement"]["dim"].toInt(), 0);
            QCOMPARE(parameter["local_shapes"][1][0].toInt(), 2);
        }
        QCOMPARE(experts, 4);
    }

    void builtInEpPlanIsShown() {
        const QJsonObject shown = runTpscope({"plans", "show", "mixtral", "--format", "json"}).json();
        QCOMPARE(shown["ep_plan"]["model.layers.*.mlp.experts"].toString(), QString("ep_dispatch_experts"));
        QCOMPARE(shown["ep_plan"]["model.layers.*.mlp.experts.down_proj"].toString(), QString("grouped_gemm"));
    }

    // Real ranks over Gloo: the tokens and gradients of one rank.
    void ranksComputeWhatOneRankComputes_data() {
        QTest::addColumn<QString>("model");
        for (const char *model : {"mixtral", "gpt_oss"})
            QTest::addRow("%s", model) << model;
    }

    void ranksComputeWhatOneRankComputes() {
        QFETCH(QString, model);
        const ProgramRun verified =
            runTpscope(withModel("verify", model, {"--tp", "2", "--ep", "2", "--train", "--quiet"}));
        QCOMPARE(verified.json()["verdict"].toString(), QString("right"));
        QCOMPARE(verified.exitCode, 0);
        const ProgramRun checked = runTpscope(withModel("gradcheck", model, {"--tp", "2", "--ep", "2", "--quiet"}));
        QCOMPARE(checked.json()["verdict"].toString(), QString("exact"));
        const QStringList decode{"--new-tokens", "4", "--quiet"};
        const ProgramRun shared = runTpscope(withModel("run", model, QStringList{"--tp", "2", "--ep", "2"} + decode));
        const ProgramRun alone = runTpscope(withModel("run", model, QStringList{"--tp", "1"} + decode));
        QCOMPARE(shared.exitCode, 0);
        QCOMPARE(shared.json()["output_ids"], alone.json()["output_ids"]);
        // What is counted is what the simulator counts.
        const ProgramRun simulated = runTpscope(
            withModel("run", model, QStringList{"--tp", "2", "--ep", "2", "--backend", "simulated"} + decode));
        const auto sums = [](const ProgramRun &run) {
            return run.json()["collectives"].toObject()["all_reduce"].toObject();
        };
        QVERIFY(sums(shared)["count"].toInt() > 0);
        QCOMPARE(sums(simulated), sums(shared));
    }

    void graphsAreThoseWithoutExpertParallelism() {
        for (const char *ep : {"1", "2"}) {
            const QJsonObject graph =
                runTpscope(withModel("graph", "qwen3_moe", {"--tp", "2", "--ep", ep})).json();
            QCOMPARE(graph["decode"]["launches"].toInt(), 1);
        }
    }

    void aPlanThatFailsIsNotRun() {
        const QString file = plan("tp_plan: auto\nep_plan:\n  model.layers.*.mlp.experts.down_proj: replicate\n");
        const QStringList options{"--plan", file, "--tp", "2", "--ep", "2", "--quiet"};
        const ProgramRun run = runTpscope(withModel("run", "mixtral", options));
        QCOMPARE(run.exitCode, 1);
        const ProgramRun verified = runTpscope(withModel("verify", "mixtral", options));
        QCOMPARE(verified.json()["verdict"].toString(), QString("failed"));
    }
};

QTEST_GUILESS_MAIN(EpVerbsTest)
#include "epverbstest.moc"
