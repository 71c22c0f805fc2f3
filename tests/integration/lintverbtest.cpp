// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

class LintVerbTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QString &name, const QByteArray &text) {
        QFile file(m_folder.filePath(name));
        if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    static QJsonObject finding(const QJsonObject &report, const QString &rule) {
        for (const QJsonValue &value : report["diagnostics"].toArray())
            if (value["rule"].toString() == rule)
                return value.toObject();
        return {};
    }

private slots:
    void builtInPlanIsFine() {
        const ProgramRun run = runTpscope({"lint", "--model", "qwen3-tiny", "--tp", "2", "--train", "--format", "json"});
        QCOMPARE(run.exitCode, 0);
        const QJsonObject json = run.json();
        QCOMPARE(json["outcome"].toString(), QString("ok"));
        QCOMPARE(json["basis"].toString(), QString("rule"));
        QCOMPARE(joined(json["valid_tp_sizes"].toArray()), QString("1,2"));
        QVERIFY(json["sharded_fraction"].toDouble() > 0.9);
    }

    // The finding stands at the rule, and its fix, applied to the text, makes the plan right.
    void fixOfAMissingGradientSyncRepairsThePlan() {
        const QByteArray text = "# norms\ntp_plan:\n  model.layers.*.self_attn.q_norm: replicate  # mine\n";
        const QString file = plan("norm.yaml", text);
        const ProgramRun run = runTpscope({"lint", "--model", "qwen3-tiny", "--tp", "2", "--train", "--plan", file,
                                        "--format", "json"});
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["outcome"].toString(), QString("wrong-gradients"));
        const QJsonObject found = finding(run.json(), "model.layers.*.self_attn.q_norm");
        QCOMPARE(found["severity"].toString(), QString("error"));
        QCOMPARE(found["line"].toInt(), 3);
        const QJsonArray edits = found["fix"].toObject()["edits"].toArray();
        QVERIFY(!edits.isEmpty());
        QByteArray repaired = text;
        for (qsizetype i = edits.size() - 1; i >= 0; --i)
            repaired.replace(edits[i]["offset"].toInt(), edits[i]["length"].toInt(), edits[i]["text"].toString().toUtf8());
        QVERIFY(repaired.contains("# mine"));
        const ProgramRun again = runTpscope({"lint", "--model", "qwen3-tiny", "--tp", "2", "--train", "--plan",
                                          plan("repaired.yaml", repaired), "--format", "json"});
        QCOMPARE(again.json()["outcome"].toString(), QString("ok"));
    }

    void allUnknownStylesAreInOneReport() {
        const QString file = plan("styles.yaml", "tp_plan:\n"
                                                 "  model.layers.*.self_attn.q_proj: Colwise\n"
                                                 "  model.layers.*.self_attn.k_proj: \"colwise \"\n"
                                                 "  model.layers.*.self_attn.v_proj: columnwise\n"
                                                 "  model.layers.*.mlp.up_proj: 3\n"
                                                 "  model.layers.*.mlp.gate_proj: null\n"
                                                 "  model.layers.*.mlp.down_proj: [rowwise]\n");
        const ProgramRun run = runTpscope({"lint", "--model", "qwen3-tiny", "--tp", "2", "--plan", file, "--format", "json"});
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["outcome"].toString(), QString("rejected"));
        QSet<int> lines;
        for (const QJsonValue &value : run.json()["diagnostics"].toArray())
            if (value["severity"] == "error")
                lines.insert(value["line"].toInt());
        QCOMPARE(lines, (QSet<int>{2, 3, 4, 5, 6, 7}));
    }

    void sizesThatCannotWorkSaySo() {
        const ProgramRun run = runTpscope({"lint", "--model", "llama-3.1-8b", "--tp", "16", "--format", "json"});
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["outcome"].toString(), QString("forward-error"));
        QCOMPARE(joined(run.json()["valid_tp_sizes"].toArray()), QString("1,2,4,8"));
    }

    // A family that nobody described: names and shapes come from the tensors, the flow is unknown.
    void unknownFlowIsNotChecked() {
        QTemporaryDir folder;
        QFile plan(folder.filePath("plan.yaml"));
        QVERIFY(plan.open(QIODevice::WriteOnly));
        plan.write("base: none\ntp_plan:\n  model.layers.*.self_attn.q_proj: colwise\n");
        plan.close();
        const ProgramRun run = runTpscope({"lint", "--model", fixture("names/model"), "--plan", plan.fileName(), "--tp",
                                           "2", "--format", "json"});
        QVERIFY2(run.exitCode == 0 || run.exitCode == 1, run.err);
        QCOMPARE(run.json()["outcome"].toString(), QString("not-checked"));
    }
};

QTEST_GUILESS_MAIN(LintVerbTest)
#include "lintverbtest.moc"
