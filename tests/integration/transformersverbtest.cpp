// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

// What graph and lint predict is what the real library does: torch.compile on two Gloo ranks.
class TransformersVerbTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString plan(const QString &name, const QByteArray &text) {
        QFile file(m_folder.filePath(name));
        if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    static void compareGraphs(const QJsonObject &measured, const QJsonObject &predicted) {
        QCOMPARE(measured["source"].toString(), QString("measured"));
        QCOMPARE(predicted["source"].toString(), QString("predicted"));
        QCOMPARE(measured["graph_breaks"].toInt(), predicted["graph_breaks"].toInt());
        for (const char *phase : {"prefill", "decode"}) {
            const QJsonObject real = measured[phase].toObject();
            const QJsonObject ours = predicted[phase].toObject();
            QVERIFY(real.contains("graphs"));
            QCOMPARE(joined(real["launch_sequence"].toArray(), " "), ours["launch_sequence"].toString());
            for (const char *key : {"graphs", "launches", "break_counter"})
                QVERIFY2(real[key] == ours[key], qPrintable(QString("%1 %2: measured %3, predicted %4")
                                                                .arg(phase, key, real[key].toVariant().toString(),
                                                                     ours[key].toVariant().toString())));
        }
    }

private slots:
    void predictionIsReality_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QByteArray>("planText");
        QTest::addColumn<QString>("hooks");
        QTest::newRow("qwen3, module-backward") << "models/qwen3" << QByteArray() << "module-backward";
        QTest::newRow("qwen3, post-accumulate-grad") << "models/qwen3" << QByteArray() << "post-accumulate-grad";
        QTest::newRow("llama, hook on every post-attention norm")
            << "models/llama"
            << QByteArray("tp_plan:\n  model.layers.*.post_attention_layernorm: replicated_with_grad_allreduce\n")
            << "module-backward";
    }

    void predictionIsReality() {
        QFETCH(QString, model);
        QFETCH(QByteArray, planText);
        QFETCH(QString, hooks);
        const QString planArgument = planText.isEmpty() ? QString("auto") : plan("plan.yaml", planText);
        // The installed library is 5.24: module-backward is emulated on it, so its wrappers are the ones to predict.
        const QStringList common{"--model", fixture(model), "--plan", planArgument, "--tp", "2", "--hooks", hooks,
                                 "--upstream", "5.24", "--format", "json"};
        const ProgramRun graph = runTpscope(QStringList{"graph"} + common);
        QVERIFY2(graph.exitCode == 0, graph.err);
        // Counting graphs needs no optimising compiler.
        const ProgramRun run = runTpscope(QStringList{"run", "--backend", "transformers", "--compile-backend", "eager",
                                                   "--new-tokens", "4", "--warmup", "1"} +
                                       common);
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject predicted = graph.json();
        const QJsonObject measured = run.json()["graphs"].toObject();
        compareGraphs(measured, predicted);
        QCOMPARE(run.json()["output_ids"].toArray().first().toArray().size(), 4);
    }

    // Native ranks and the real library decode the same tokens.
    void glooAndTransformersDecodeTheSame() {
        const QStringList common{"run", "--model", "qwen3-tiny", "--tp", "2", "--new-tokens", "8", "--format", "json"};
        const ProgramRun ours = runTpscope(common + QStringList{"--backend", "gloo"});
        const ProgramRun theirs = runTpscope(common + QStringList{"--backend", "transformers", "--eager"});
        QVERIFY2(ours.exitCode == 0, ours.err);
        QVERIFY2(theirs.exitCode == 0, theirs.err);
        QCOMPARE(ours.json()["output_ids"], theirs.json()["output_ids"]);
        QCOMPARE(theirs.json()["source"].toString(), QString("measured"));
    }

    void aPlanTheLibraryRejectsIsTold() {
        const QString file = plan("unknown.yaml", "tp_plan:\n  model.layers.*.self_attn.q_proj: colwize\n");
        const ProgramRun run = runTpscope({"run", "--backend", "transformers", "--model", "qwen3-tiny", "--tp", "2",
                                        "--plan", file, "--force", "--new-tokens", "2"});
        QCOMPARE(run.exitCode, 1);
        QVERIFY2(run.err.contains("colwize"), run.err);
    }
};

QTEST_GUILESS_MAIN(TransformersVerbTest)
#include "transformersverbtest.moc"
