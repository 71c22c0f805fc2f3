// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

// `tpscope diff OLD NEW`: what a review needs to know about a changed plan.
class DiffVerbTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QString &name, const QByteArray &text) {
        QFile file(m_folder.filePath(name));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    static QJsonObject at(const QJsonObject &diff, int model, int size) {
        return diff["models"].toArray()[model].toObject()["sizes"].toArray()[size].toObject();
    }

private slots:
    void aPlanDiffersFromItselfInNothing() {
        const ProgramRun run = runTpscope({"diff", "auto", "auto", "--model", fixture("models/qwen3"),
                                           fixture("models/mixtral"), "--tp", "1,2,4", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject diff = run.json();
        QCOMPARE(diff["models"].toArray().size(), 2);
        for (int model = 0; model < 2; ++model) {
            QVERIFY(diff["models"].toArray()[model].toObject()["rules"].toArray().isEmpty());
            for (int size = 0; size < 3; ++size) {
                QCOMPARE(at(diff, model, size)["before"], at(diff, model, size)["after"]);
                QVERIFY(at(diff, model, size)["placements"].toArray().isEmpty());
            }
        }
    }

    // Each number is what its own verb says.
    void sidesAreWhatTheVerbsSay() {
        const QString after = plan("after.yaml", "tp_plan:\n  model.layers.*.mlp.up_proj: colwise_gather_output\n"
                                                 "  model.layers.*.mlp.gate_proj: colwise_gather_output\n"
                                                 "  model.layers.*.mlp.down_proj: rowwise_split_input\n");
        const QString model = fixture("models/qwen3");
        const ProgramRun run = runTpscope({"diff", "auto", after, "--model", model, "--tp", "2", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject row = at(run.json(), 0, 0);
        const QPair<QString, QString> sides[] = {{"before", "auto"}, {"after", after}};
        for (const auto &[side, name] : sides) {
            const QStringList common{"--model", model, "--plan", name, "--tp", "2", "--format", "json"};
            const QJsonObject said = row[side].toObject();
            const QJsonObject lint = runTpscope(QStringList{"lint"} + common).json();
            QCOMPARE(said["outcome"], lint["outcome"]);
            QCOMPARE(said["errors"], lint["errors"]);
            QCOMPARE(said["sharded_fraction"], lint["sharded_fraction"]);
            QCOMPARE(said["graph_breaks"], runTpscope(QStringList{"graph"} + common).json()["graph_breaks"]);
            const QJsonObject simulated =
                runTpscope(QStringList{"run", "--backend", "simulated", "--new-tokens", "2"} + common).json();
            QCOMPARE(said["collectives"], simulated["collectives"]);
            const QJsonArray bytes = runTpscope(QStringList{"shard"} + common).json()["bytes_per_rank"].toArray();
            QCOMPARE(said["largest_rank_bytes"].toInteger(), bytes[0].toInteger());
        }
        QCOMPARE(run.json()["models"].toArray()[0].toObject()["rules"].toArray().size(), 3);
    }

    void whatBreaksIsSaidAndFailsTheReview() {
        const QString broken = plan("broken.yaml", "tp_plan:\n  model.layers.*.mlp.down_proj: colwise\n");
        for (const char *format : {"text", "markdown", "html"}) {
            const ProgramRun run = runTpscope({"diff", "auto", broken, "--model", fixture("models/llama"), "--tp", "1,2",
                                               "--format", format});
            QCOMPARE(run.exitCode, 1);
            QVERIFY2(run.out.contains("no longer ok") && run.out.contains("rowwise"), run.out);
        }
        const ProgramRun json = runTpscope({"diff", "auto", broken, "--model", fixture("models/llama"), "--tp", "1,2",
                                            "--format", "json"});
        QCOMPARE(json.json()["worse"].toBool(), true);
        // One rank applies no plan.
        QCOMPARE(at(json.json(), 0, 0)["after"].toObject()["outcome"].toString(), QString("ok"));
        QVERIFY(!at(json.json(), 0, 1)["placements"].toArray().isEmpty());
    }

    void unreadablePlansAreTold() {
        const ProgramRun run = runTpscope({"diff", "auto", plan("bad.yaml", "tp_plan: [\n"), "--model",
                                           fixture("models/llama")});
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.err.contains("bad.yaml"), run.err);
    }
};

QTEST_GUILESS_MAIN(DiffVerbTest)
#include "diffverbtest.moc"
