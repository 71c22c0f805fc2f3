// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>

#include "program.h"

// `verify` and `gradcheck` on ranks of the real library: what was recorded comes out again, what lint predicts happens.
class TransformersOracleTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QJsonObject &rules) {
        QFile file(m_folder.filePath("plan.json"));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate))
            qFatal("cannot write the test's own file");
        file.write(QJsonDocument(QJsonObject{{"tp_plan", rules}}).toJson());
        return file.fileName();
    }

    static QStringList common() { return {"--backend", "transformers", "--tp", "2", "--format", "json", "--quiet"}; }

    static QJsonObject parameter(const QJsonArray &parameters, const QString &name) {
        for (const QJsonValue &value : parameters)
            if (value["name"].toString() == name)
                return value.toObject();
        return {};
    }

    static QJsonObject recordedPlan(const QString &name) {
        for (const QJsonValue &value : readObject(fixture("plan_errors.json"))["cases"].toArray())
            if (value["case"].toString() == name)
                return value.toObject();
        return {};
    }

    static QJsonObject check(const QJsonObject &report, const QString &name) {
        for (const QJsonValue &value : report["checks"].toArray())
            if (value["check"].toString() == name)
                return value.toObject();
        return {};
    }

private slots:
    void equalsTheRecordedPlans_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("verdict");
        QTest::addColumn<QString>("stage");
        QTest::addColumn<QString>("outcome");
        QTest::newRow("refused") << "unknown_style" << "failed" << "load" << "rejected";
        QTest::newRow("wrong logits") << "whole_mlp_key_all_reduce" << "wrong-logits" << "" << "wrong-logits";
        QTest::newRow("wrong gradients") << "kv1_k_v_replicate" << "wrong-gradients" << "" << "wrong-gradients";
    }

    void equalsTheRecordedPlans() {
        QFETCH(QString, name);
        QFETCH(QString, verdict);
        QFETCH(QString, stage);
        QFETCH(QString, outcome);
        const QJsonObject recorded = recordedPlan(name);
        QVERIFY(!recorded.isEmpty());
        const QStringList subject{"--model", fixture("models/" + recorded["model"].toString()), "--plan",
                                  plan(recorded["plan"].toObject())};
        const ProgramRun lint = runTpscope(QStringList{"lint", "--train", "--tp", "2", "--format", "json"} + subject);
        QCOMPARE(lint.json()["outcome"].toString(), outcome);
        const ProgramRun run = runTpscope(QStringList{"verify", "--train"} + subject + common());
        const QJsonObject report = run.json();
        QVERIFY2(report["verdict"].toString() == verdict, run.out + run.err);
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(report["source"].toString(), QString("measured"));
        // The library's own words, and the line of the plan that lint blames.
        QCOMPARE(report["error"]["stage"].toString(), stage);
        const QJsonObject words = recorded[stage == "load" ? "load_error" : "forward_error"].toObject();
        if (!words.isEmpty()) {
            QCOMPARE(report["error"]["kind"].toString(), words["type"].toString());
            QCOMPARE(report["error"]["message"].toString().left(40), words["message"].toString().left(40));
        }
        const QJsonArray findings = report["findings"].toArray();
        QVERIFY(!findings.isEmpty());
        QVERIFY(findings[0]["line"].toInt() > 0);
        QCOMPARE(report["first_diverging_module"].isObject(), verdict == "wrong-logits");
        if (verdict == "wrong-logits")
            QCOMPARE(report["first_diverging_module"]["name"].toString(), QString("model.layers.0.mlp"));
        QStringList wrong, known = recorded["wrong_gradients"].toObject().keys();
        for (const QJsonValue &value : report["gradients"]["parameters"].toArray())
            if (!value["cause"].isNull())
                wrong << value["name"].toString();
        for (const QJsonValue &rank : recorded["other_ranks"].toObject())
            known << rank["wrong_gradients"].toObject().keys();
        known.removeDuplicates();
        known.sort();
        wrong.sort();
        if (verdict == "wrong-gradients")
            QCOMPARE(wrong, known);
    }

    void equalsTheRecordedHooks_data() {
        QTest::addColumn<QString>("version");
        QTest::addColumn<QString>("hooks");
        QTest::addColumn<QString>("step");
        QTest::addColumn<QStringList>("arguments");
        const std::pair<const char *, QStringList> steps[] = {
            {"backward_1", {}},
            {"backward_2_accumulated", {"--micro-steps", "2"}},
            {"backward_3_accumulated", {"--micro-steps", "3"}},
            {"only_norms_trainable_backward_1", {"--trainable", "model.layers.*.self_attn.?_norm.weight"}},
            {"gradient_checkpointing_backward_1", {"--gradient-checkpointing"}}};
        for (const auto &[step, arguments] : steps) {
            QTest::addRow("module-backward %s", step) << "5.21.1" << "module-backward" << step << arguments;
            QTest::addRow("post-accumulate-grad %s", step) << "5.24.0" << "post-accumulate-grad" << step << arguments;
        }
    }

    void equalsTheRecordedHooks() {
        QFETCH(QString, version);
        QFETCH(QString, hooks);
        QFETCH(QString, step);
        QFETCH(QStringList, arguments);
        const QJsonObject all = readObject(fixture("grad_sync.json"));
        const QJsonObject recorded = all["versions"][version]["steps"][step].toObject();
        const QJsonObject norms = recorded["norms"].toObject();
        QVERIFY(!norms.isEmpty());
        const ProgramRun run = runTpscope(
            QStringList{"gradcheck", "--model", fixture(all["model"].toString()), "--attention", "eager", "--hooks",
                        hooks, "--input-ids", joined(all["input_ids_and_labels"].toArray())} + arguments + common());
        const QJsonObject report = run.json();
        QVERIFY2(!report.isEmpty(), run.err);
        const bool exact = recorded["norms_exact"].toBool();
        QCOMPARE(report["verdict"].toString(), exact ? "exact" : "wrong");
        QCOMPARE(run.exitCode, exact ? 0 : 1);
        const int microSteps = recorded["expected_multiple_of_reference"].toInt();
        for (auto norm = norms.begin(); norm != norms.end(); ++norm) {
            const QJsonObject found = parameter(report["parameters"].toArray(), norm.key());
            const QJsonArray multiples = norm.value().toObject()["observed_multiple_of_reference"].toArray();
            for (qsizetype rank = 0; rank < multiples.size(); ++rank) {
                const double ratio = found["ratio_per_rank"].toArray()[rank].toDouble();
                QVERIFY2(qAbs(ratio * microSteps - multiples[rank].toDouble()) < 1e-3, qPrintable(norm.key()));
            }
        }
        const QJsonObject norm =
            parameter(report["parameters"].toArray(), "model.layers.0.self_attn.q_norm.weight");
        const bool unreduced = !exact && step.startsWith("only_norms");
        QCOMPARE(norm["cause"].toString(), exact ? "" : unreduced ? "never synchronised" : "repeated reduction");
        QCOMPARE(norm["reductions"].toInt(), unreduced ? 0 : microSteps);
        QCOMPARE(report["gradient_norm"]["reported"].toDouble() > 1.0001 * report["gradient_norm"]["true"].toDouble(),
                 !exact && !unreduced);
    }

    void aTwinOfAClassNobodyDescribed() {
        const ProgramRun run = runTpscope(QStringList{"verify", "--tiny", "--model", "ArceeForCausalLM", "--plan",
                                                      plan({{"model.layers.*.mlp.up_proj", "replicate"}})} + common());
        const QJsonObject report = run.json();
        QVERIFY2(!report.isEmpty(), run.err);
        QCOMPARE(report["twin"]["model_type"].toString(), QString("arcee"));
        QCOMPARE(report["verdict"].toString(), QString("failed"));
        QCOMPARE(check(report, "load")["verdict"].toString(), QString("right"));
        QCOMPARE(check(report, "save")["verdict"].toString(), QString("right"));
        QCOMPARE(check(report, "gradients")["verdict"].toString(), QString("not checked"));
        // What fails has an inherited rule; the one beside it is ours.
        const QJsonObject logits = check(report, "logits");
        QCOMPARE(logits["verdict"].toString(), QString("failed"));
        QCOMPARE(logits["names"].toArray(), QJsonArray{"model.layers.*.mlp.down_proj"});
        QCOMPARE(logits["rules"][0]["style"].toString(), QString("rowwise"));
        QCOMPARE(logits["rules"][0]["line"].toInt(), 0);
        QCOMPARE(logits["rules"][1]["style"].toString(), QString("replicate"));
        QVERIFY(logits["rules"][1]["line"].toInt() > 0);
    }

    void aTwinOfADescribedModel() {
        const ProgramRun run = runTpscope(QStringList{"verify", "--tiny", "--model", "qwen3-8b", "--hooks",
                                                      "module-backward", "--plan",
                                                      plan({{"model.layers.*.self_attn.q_norm", "replicate"}})} +
                                          common());
        const QJsonObject report = run.json();
        QVERIFY2(report["verdict"].toString() == "wrong-gradients", run.out + run.err);
        QCOMPARE(check(report, "logits")["verdict"].toString(), QString("right"));
        const QJsonObject gradients = check(report, "gradients");
        QCOMPARE(gradients["names"].toArray(), QJsonArray{"model.layers.*.self_attn.q_norm.weight"});
        QCOMPARE(gradients["rules"][0]["rule"].toString(), QString("model.layers.*.self_attn.q_norm"));
        QVERIFY(gradients["rules"][0]["line"].toInt() > 0);
        const QJsonObject hooks = check(report, "hooks");
        QCOMPARE(hooks["verdict"].toString(), QString("breaks"));
        QCOMPARE(hooks["names"].toArray(), QJsonArray{"model.layers.*.self_attn.k_norm"});
    }

    void cancellingLeavesNothing() {
        QTemporaryDir temporary;
        QProcess process;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("TMPDIR", temporary.path());
        process.setProcessEnvironment(environment);
        process.setReadChannel(QProcess::StandardError);
        process.start(QStringLiteral(TPSCOPE_PROGRAM),
                      {"verify", "--model", "qwen3-tiny", "--backend", "transformers", "--tp", "2"});
        while (!process.readAllStandardError().contains("reference:"))
            QVERIFY(process.waitForReadyRead(120000));
        QVERIFY(!QDir(temporary.path()).isEmpty());
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(30000));
        QCOMPARE(process.exitCode(), 130);
        QVERIFY(QDir(temporary.path()).isEmpty());
    }
};

QTEST_GUILESS_MAIN(TransformersOracleTest)
#include "transformersoracletest.moc"
