// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

// `tpscope verify` on real ranks against what transformers did with the same plans (fixtures/plan_errors.json).
class VerifyVerbTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QJsonValue &rules) {
        if (!rules.isObject())
            return rules.isNull() ? "none" : "auto";
        QFile file(m_folder.filePath("plan.json"));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate))
            qFatal("cannot write the test's own file");
        file.write(QJsonDocument(QJsonObject{{"tp_plan", rules}}).toJson());
        return file.fileName();
    }

    ProgramRun verify(const QString &model, int tp, const QString &planName, const QStringList &more = {}) {
        return runTpscope(QStringList{"verify", "--model", model, "--tp", QString::number(tp), "--plan", planName,
                                      "--format", "json", "--quiet"} + more);
    }

    static QString verdictOf(const QString &recorded) {
        if (recorded == "SILENTLY_WRONG_logits" || recorded == "accepted_wrong_logits_shape")
            return "wrong-logits";
        if (recorded == "logits_right_SILENTLY_WRONG_gradients")
            return "wrong-gradients";
        return recorded.startsWith("ok") ? "right" : "failed";
    }

private slots:
    void equalsTransformers_data() {
        QTest::addColumn<QJsonObject>("recorded");
        QHash<QString, int> taken;
        for (const QJsonValue &value : readObject(fixture("plan_errors.json"))["cases"].toArray()) {
            const QJsonObject recorded = value.toObject();
            const QString model = recorded["model"].toString();
            const QString verdict = verdictOf(recorded["verdict"].toString());
            const bool family = model.startsWith("llama") || model.startsWith("qwen3");
            if (!family || recorded.contains("extra") || recorded["plan"].isNull() || recorded["plan"].isArray() ||
                recorded["verdict"] == "ok_with_warning")
                continue;
            // Every wrong plan, and some of those that are right or fail.
            if (!verdict.startsWith("wrong") && ++taken[verdict] > 3)
                continue;
            QTest::newRow(qPrintable(recorded["case"].toString())) << recorded;
        }
    }

    void equalsTransformers() {
        QFETCH(QJsonObject, recorded);
        const QString expected = verdictOf(recorded["verdict"].toString());
        const ProgramRun run = verify(fixture("models/" + recorded["model"].toString()), recorded["tp"].toInt(),
                                      plan(recorded["plan"]), {"--train"});
        const QJsonObject report = run.json();
        QVERIFY2(!report.isEmpty(), run.err);
        QVERIFY2(report["verdict"].toString() == expected, run.out + run.err);
        QCOMPARE(run.exitCode, expected == "right" ? 0 : 1);
        QCOMPARE(report["first_diverging_module"].isObject(), expected == "wrong-logits");
        QCOMPARE(report["error"].isObject(), expected == "failed");
        QStringList wrong;
        for (const QJsonValue &parameter : report["gradients"]["parameters"].toArray())
            if (!parameter["cause"].isNull())
                wrong << parameter["name"].toString();
        QStringList known = recorded["wrong_gradients"].toObject().keys();
        for (const QJsonValue &rank : recorded["other_ranks"].toObject())
            known << rank["wrong_gradients"].toObject().keys();
        known.removeDuplicates();
        wrong.sort();
        known.sort();
        if (expected == "wrong-gradients" && !recorded.contains("backward_error"))
            QCOMPARE(wrong, known);
    }

    void firstDivergingModule_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("style");
        QTest::addColumn<QString>("module");
        QTest::addColumn<QString>("operation");
        QTest::newRow("reduced twice") << "model.layers.*.mlp" << "all_reduce" << "model.layers.0.mlp" << "all_reduce";
        QTest::newRow("wrong heads") << "model.layers.*.self_attn.v_proj" << "colwise_gather_output"
                                     << "model.layers.0.self_attn" << "attend";
        QTest::newRow("packed") << "model.layers.*.mlp.gate_proj" << "packed_colwise" << "model.layers.0.mlp"
                                << "multiply";
        QTest::newRow("never gathered") << "lm_head" << "colwise" << "lm_head" << "linear";
    }

    void firstDivergingModule() {
        QFETCH(QString, key);
        QFETCH(QString, style);
        QFETCH(QString, module);
        QFETCH(QString, operation);
        const ProgramRun run = verify(fixture("models/llama"), 2, plan(QJsonObject{{key, style}}));
        const QJsonObject first = run.json()["first_diverging_module"].toObject();
        QVERIFY2(!first.isEmpty(), run.out + run.err);
        QCOMPARE(first["name"].toString(), module);
        QCOMPARE(first["operation"].toString(), operation);
        QVERIFY(first["expected"] != first["found"]);
    }

    void aRightPlanSaysSo() {
        const ProgramRun run =
            verify("qwen3-tiny", 2, "auto", {"--train", "--micro-steps", "2", "--hooks", "tensor-grad"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject report = run.json();
        QCOMPARE(report["verdict"].toString(), QString("right"));
        QCOMPARE(report["source"].toString(), QString("measured"));
        QVERIFY(report["max_abs_logit_error"].toDouble() < 1e-4);
        QVERIFY(report["first_diverging_module"].isNull());
        QCOMPARE(report["gradients"]["verdict"].toString(), QString("exact"));
    }

    void aRefusedPlanIsNotRun() {
        const ProgramRun run = verify("qwen3-tiny", 2, plan(QJsonObject{{"model.layers.*.mlp.nothing", "colwise"}}));
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["verdict"].toString(), QString("failed"));
        QCOMPARE(run.json()["error"].toObject()["stage"].toString(), QString("load"));
        QCOMPARE(run.json()["source"].toString(), QString("predicted"));
    }

    void textSaysTheVerdictFirst() {
        const ProgramRun run = runTpscope({"verify", "--model", fixture("models/llama"), "--tp", "2", "--plan",
                                           plan(QJsonObject{{"lm_head", "colwise"}}), "--quiet"});
        QCOMPARE(run.exitCode, 1);
        QVERIFY2(run.out.startsWith("wrong-logits (measured"), run.out);
        QVERIFY2(run.out.contains("first diverging: lm_head"), run.out);
        QVERIFY2(run.out.contains("gradients: not checked"), run.out);
    }
};

QTEST_GUILESS_MAIN(VerifyVerbTest)
#include "verifyverbtest.moc"
