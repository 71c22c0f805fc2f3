// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <cstring>

#include "model/safetensors.h"
#include "program.h"

// `tpscope run --backend gloo` against what transformers computed.
class GlooRunVerbTest : public QObject {
    Q_OBJECT

    static QList<float> floats(const tpscope::Checkpoint &file, const std::string &name) {
        const auto bytes = file.bytes(name);
        QList<float> values(static_cast<qsizetype>(bytes.size() / sizeof(float)));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }

    static void compareLogits(const QString &actual, const QString &expected, const std::string &name) {
        const auto ours = tpscope::Checkpoint::open({actual.toStdString()});
        const auto theirs = tpscope::Checkpoint::open({expected.toStdString()});
        QVERIFY(ours && theirs);
        const QList<float> a = floats(*ours, name);
        const QList<float> b = floats(*theirs, name);
        QCOMPARE(a.size(), b.size());
        QVERIFY(!a.isEmpty());
        float largest = 0;
        for (qsizetype i = 0; i < a.size(); ++i)
            largest = std::max(largest, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
        QVERIFY2(largest <= 1e-4F, qPrintable(QString("%1: %2").arg(QString::fromStdString(name)).arg(largest)));
    }

private slots:
    void equalsTransformers_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("tp");
        const QDir models(fixture("models"));
        for (const QString &model : models.entryList(QDir::Dirs | QDir::NoDotAndDotDot)) {
            QTest::newRow(qPrintable(model + " tp 1")) << model << 1;
            for (const int tp : {2, 3, 4}) {
                const QJsonObject recorded =
                    readObject(fixture(QString("sharding/%1-tp%2.json").arg(model).arg(tp)));
                // Only where upstream's forward works; elsewhere the run is refused (see refusesWhatUpstreamCannotRun).
                if (recorded["logits_vs_single_process"].toObject()["no_grad"].isObject())
                    QTest::newRow(qPrintable(QString("%1 tp %2").arg(model).arg(tp))) << model << tp;
            }
        }
    }

    void equalsTransformers() {
        QFETCH(QString, model);
        QFETCH(int, tp);
        const QString folder = fixture("models/" + model);
        const QJsonObject expected = readObject(folder + "/expected.json");
        QTemporaryDir temporary;
        const QString logits = temporary.filePath("logits.safetensors");
        const ProgramRun run = runTpscope({"run", "--model", folder, "--plan", tp == 1 ? "none" : "auto", "--tp",
                                        QString::number(tp), "--backend", "gloo", "--input-ids",
                                        joined(expected["input_ids"].toArray()), "--new-tokens", "16", "--warmup", "0",
                                        "--logits", logits, "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject json = run.json();
        QCOMPARE(json["source"].toString(), QString("measured"));
        QCOMPARE(json["per_token_ms"].toObject()["n"].toInt() > 0, true);
        if (expected["min_top1_top2_gap"].toDouble() > 2e-4)
            QCOMPARE(joined(json["output_ids"].toArray().first().toArray()),
                     joined(expected["greedy_tokens"].toArray()));
        compareLogits(logits, folder + "/expected.safetensors", "logits");
        compareLogits(logits, folder + "/expected.safetensors", "decode_logits");
    }

    void refusesWhatUpstreamCannotRun() {
        const ProgramRun run = runTpscope({"run", "--model", fixture("models/llama"), "--tp", "4", "--backend", "gloo"});
        QCOMPARE(run.exitCode, 1);
        QVERIFY2(run.err.contains("forward-error"), run.err);
        QVERIFY2(run.err.contains("key/value heads are not divisible by tp 4"), run.err);
    }

    void batchOfEqualPromptsGivesEqualRows() {
        const ProgramRun run = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--input-ids",
                                        "17,203,5,88;17,203,5,88;1,2,3,4", "--new-tokens", "5", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonArray rows = run.json()["output_ids"].toArray();
        QCOMPARE(rows.size(), 3);
        QCOMPARE(rows[0].toArray(), rows[1].toArray());
        QCOMPARE(rows[2].toArray().size(), 5);
        const ProgramRun single = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--input-ids", "1,2,3,4",
                                           "--new-tokens", "5", "--format", "json"});
        QCOMPARE(single.json()["output_ids"].toArray()[0].toArray(), rows[2].toArray());
    }

    void hooksRegisteredAfterDecode_data() {
        QTest::addColumn<QString>("hooks");
        QTest::addColumn<int>("registered");
        // q_norm and k_norm of two layers; post-accumulate-grad registers nothing under no_grad.
        QTest::newRow("none") << "none" << 0;
        QTest::newRow("module-backward") << "module-backward" << 4;
        QTest::newRow("post-accumulate-grad") << "post-accumulate-grad" << 0;
        QTest::newRow("tensor-grad") << "tensor-grad" << 4;
    }

    void hooksRegisteredAfterDecode() {
        QFETCH(QString, hooks);
        QFETCH(int, registered);
        const ProgramRun run = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--hooks", hooks, "--new-tokens",
                                        "3", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        QCOMPARE(run.json()["hooks_registered"].toInt(), registered);
    }

    void collectivesOfATokenAreUpstreams() {
        const ProgramRun run = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--new-tokens", "4", "--format",
                                        "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject collectives = run.json()["collectives"].toObject();
        // 2L+1 all-reduce and one all-gather (REFERENCE section 2): embedding, o_proj and down_proj of 2 layers, lm_head.
        QCOMPARE(collectives["all_reduce"].toObject()["count"].toInt(), 5);
        QCOMPARE(collectives["all_gather"].toObject()["count"].toInt(), 1);
    }

    void oneShotGivesTheSameIds() {
        const QStringList common{"run", "--model", "qwen3-tiny", "--tp", "2", "--new-tokens", "8", "--format", "json"};
        const ProgramRun gloo = runTpscope(common + QStringList{"--collectives", "gloo"});
        const ProgramRun oneShot = runTpscope(common + QStringList{"--collectives", "one-shot"});
        QVERIFY2(oneShot.exitCode == 0, oneShot.err);
        QCOMPARE(oneShot.json()["output_ids"], gloo.json()["output_ids"]);
    }
};

QTEST_GUILESS_MAIN(GlooRunVerbTest)
#include "gloorunverbtest.moc"
