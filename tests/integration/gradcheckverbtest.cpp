// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

// `tpscope gradcheck` on real ranks against what transformers recorded (fixtures/grad_sync.json).
class GradcheckVerbTest : public QObject {
    Q_OBJECT

    QJsonObject m_recorded;
    QTemporaryDir m_folder;

    QStringList command(const QString &hooks, int microSteps) const {
        return {"gradcheck", "--model", fixture(m_recorded["model"].toString()), "--tp", "2", "--attention", "eager",
                "--input-ids", joined(m_recorded["input_ids_and_labels"].toArray()), "--hooks", hooks,
                "--micro-steps", QString::number(microSteps), "--backend", "gloo", "--format", "json", "--quiet"};
    }

    QString plan(const QByteArray &rules) {
        QFile file(m_folder.filePath("plan.yaml"));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate))
            qFatal("cannot write the test's own file");
        file.write("tp_plan:\n" + rules);
        return file.fileName();
    }

    static QJsonObject parameter(const QJsonObject &report, const QString &name) {
        for (const QJsonValue &value : report["parameters"].toArray())
            if (value["name"].toString() == name)
                return value.toObject();
        return {};
    }

    static QStringList wrongOf(const QJsonObject &report) {
        QStringList names;
        for (const QJsonValue &value : report["parameters"].toArray())
            if (!value["cause"].isNull())
                names << value["name"].toString();
        return names;
    }

private slots:
    void initTestCase() {
        m_recorded = readObject(fixture("grad_sync.json"));
        QVERIFY(!m_recorded.isEmpty());
    }

    void equalsTransformers_data() {
        QTest::addColumn<QString>("version");
        QTest::addColumn<QString>("hooks");
        QTest::addColumn<QString>("step");
        QTest::addColumn<int>("microSteps");
        const QPair<QString, QString> versions[] = {{"5.21.1", "module-backward"}, {"5.24.0", "post-accumulate-grad"}};
        for (const auto &[version, hooks] : versions) {
            QTest::addRow("%s 1", qPrintable(hooks)) << version << hooks << "backward_1" << 1;
            QTest::addRow("%s 2", qPrintable(hooks)) << version << hooks << "backward_2_accumulated" << 2;
            QTest::addRow("%s 3", qPrintable(hooks)) << version << hooks << "backward_3_accumulated" << 3;
            QTest::addRow("%s only norms", qPrintable(hooks))
                << version << hooks << "only_norms_trainable_backward_1" << 1;
            QTest::addRow("%s checkpointing", qPrintable(hooks))
                << version << hooks << "gradient_checkpointing_backward_1" << 1;
        }
    }

    void equalsTransformers() {
        QFETCH(QString, version);
        QFETCH(QString, hooks);
        QFETCH(QString, step);
        QFETCH(int, microSteps);
        const QJsonObject recorded =
            m_recorded["versions"][version]["steps"][step].toObject();
        const QJsonObject norms = recorded["norms"].toObject();
        QStringList arguments = command(hooks, microSteps);
        const bool onlyNorms = step.startsWith("only_norms");
        if (onlyNorms)
            arguments << "--trainable" << "model.layers.*.self_attn.?_norm.weight";
        if (step.startsWith("gradient_checkpointing"))
            arguments << "--gradient-checkpointing";
        const ProgramRun run = runTpscope(arguments);
        const QJsonObject report = run.json();
        QVERIFY2(!report.isEmpty(), run.err);
        QCOMPARE(run.exitCode, recorded["norms_exact"].toBool() ? 0 : 1);
        QCOMPARE(report["verdict"].toString(), recorded["norms_exact"].toBool() ? "exact" : "wrong");
        QCOMPARE(report["source"].toString(), QString("measured"));
        QCOMPARE(report["parameters"].toArray().size() == norms.size(), onlyNorms);
        for (auto norm = norms.begin(); norm != norms.end(); ++norm) {
            const QJsonObject found = parameter(report, norm.key());
            const QJsonArray multiples = norm.value().toObject()["observed_multiple_of_reference"].toArray();
            const QJsonArray errors = norm.value().toObject()["max_abs_err_vs_expected"].toArray();
            double worst = 0;
            for (qsizetype rank = 0; rank < multiples.size(); ++rank) {
                const double ratio = found["ratio_per_rank"].toArray()[rank].toDouble();
                QVERIFY2(qAbs(ratio * microSteps - multiples[rank].toDouble()) < 1e-3, qPrintable(norm.key()));
                worst = qMax(worst, errors[rank].toDouble());
            }
            // Of what is exact, both have nothing but rounding, each its own.
            QVERIFY2(qAbs(found["max_abs_error"].toDouble() - worst) < 2e-3 * worst + 5e-6, qPrintable(norm.key()));
            const bool exact = worst < 1e-4;
            QCOMPARE(found["cause"].isNull(), exact);
            if (!exact)
                QCOMPARE(found["cause"].toString(), onlyNorms ? "never synchronised" : "repeated reduction");
        }
        for (const QString &wrong : wrongOf(report))
            QVERIFY2(norms.contains(wrong), qPrintable(wrong));
    }

    void tensorGradIsExact() {
        const ProgramRun run = runTpscope(command("tensor-grad", 3));
        QCOMPARE(run.exitCode, 0);
        const QJsonObject report = run.json();
        QCOMPARE(report["verdict"].toString(), QString("exact"));
        QCOMPARE(parameter(report, "model.layers.0.self_attn.q_norm.weight")["reductions"].toInt(), 3);
        const QJsonObject norm = report["gradient_norm"].toObject();
        QVERIFY(qAbs(norm["reported"].toDouble() / norm["true"].toDouble() - 1) < 1e-5);
    }

    void withoutHooksTheRanksAddUpToTheTruth() {
        const ProgramRun run = runTpscope(command("none", 1));
        QCOMPARE(run.exitCode, 1);
        const QJsonObject report = run.json();
        QCOMPARE(wrongOf(report).size(), 4);
        const QJsonObject found = parameter(report, "model.layers.1.self_attn.k_norm.weight");
        QCOMPARE(found["cause"].toString(), QString("never synchronised"));
        QCOMPARE(found["reductions"].toInt(), 0);
        const QJsonArray ratios = found["ratio_per_rank"].toArray();
        QVERIFY(qAbs(ratios[0].toDouble() + ratios[1].toDouble() - 1) < 1e-4);
    }

    void causesOfWrongPlans_data() {
        QTest::addColumn<QByteArray>("rules");
        QTest::addColumn<int>("microSteps");
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("cause");
        QTest::addColumn<double>("ratio");
        QTest::addColumn<int>("reductions");
        const QString qNorm = "model.layers.0.self_attn.q_norm.weight";
        const QString norm = "model.norm.weight";
        QTest::newRow("no sync") << QByteArray("  model.layers.*.self_attn.q_norm: replicate\n") << 1 << qNorm
                                 << "partial" << -1.0 << 0;
        QTest::newRow("no sync, accumulated") << QByteArray("  model.layers.*.self_attn.q_norm: replicate\n") << 2
                                              << qNorm << "partial" << -1.0 << 0;
        QTest::newRow("needless") << QByteArray("  model.norm: replicated_with_grad_allreduce\n") << 1 << norm
                                  << "needless sync p times" << 2.0 << 1;
        QTest::newRow("needless, accumulated") << QByteArray("  model.norm: replicated_with_grad_allreduce\n") << 2
                                               << norm << "needless sync p times" << 3.0 << 2;
        QTest::newRow("by DTensor") << QByteArray("  model.norm: sequence_parallel\n") << 1 << norm
                                    << "needless sync p times" << 2.0 << 1;
    }

    void causesOfWrongPlans() {
        QFETCH(QByteArray, rules);
        QFETCH(int, microSteps);
        QFETCH(QString, name);
        QFETCH(QString, cause);
        QFETCH(double, ratio);
        QFETCH(int, reductions);
        const ProgramRun run = runTpscope(command("post-accumulate-grad", microSteps) << "--plan" << plan(rules));
        const QJsonObject found = parameter(run.json(), name);
        QVERIFY2(!found.isEmpty(), run.err);
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(found["cause"].toString(), cause);
        QCOMPARE(found["reductions"].toInt(), reductions);
        if (ratio > 0)
            QVERIFY(qAbs(found["ratio"].toDouble() - ratio) < 1e-3);
    }

    void textFoldsLayers() {
        QStringList arguments = command("post-accumulate-grad", 2);
        arguments.replace(arguments.indexOf("json"), "text");
        const ProgramRun run = runTpscope(arguments);
        QCOMPARE(run.exitCode, 1);
        QVERIFY2(run.out.startsWith("wrong (measured"), run.out);
        QVERIFY2(run.out.contains("model.layers.*.self_attn.q_norm.weight"), run.out);
        QVERIFY2(!run.out.contains("model.layers.0.self_attn.q_norm.weight"), run.out);
        QVERIFY2(run.out.contains("wrong: repeated reduction"), run.out);
    }

    void aStepThatRaisesIsWrong() {
        const ProgramRun run =
            runTpscope(command("none", 1) << "--plan" << plan("  model.layers.*.self_attn.o_proj: replicate\n"));
        QCOMPARE(run.exitCode, 1);
        QCOMPARE(run.json()["verdict"].toString(), QString("wrong"));
        QCOMPARE(run.json()["error"].toObject()["stage"].toString(), QString("training"));
    }
};

QTEST_GUILESS_MAIN(GradcheckVerbTest)
#include "gradcheckverbtest.moc"
