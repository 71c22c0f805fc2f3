// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <cstring>

#include "model/safetensors.h"
#include "program.h"
#include "run/oracle.h"

// Native runs in half precision and of batches padded on the left against what transformers computed
// (data/recorded/forwards.py).
class RecordedForwardsTest : public QObject {
    Q_OBJECT

    QJsonObject m_models;

    // The last position's logits of each row of a prefill.
    static QList<QList<double>> lastLogits(const QString &path) {
        const auto file = tpscope::Checkpoint::open({path.toStdString()});
        if (!file)
            return {};
        const auto bytes = file->bytes("logits");
        const auto &shape = file->find("logits")->shape; // [B, T, V]
        QList<QList<double>> rows;
        for (std::int64_t row = 0; row < shape[0]; ++row) {
            rows.emplace_back();
            for (std::int64_t i = 0; i < shape[2]; ++i) {
                float value = 0;
                const auto at = static_cast<std::size_t>((row * shape[1] + shape[1] - 1) * shape[2] + i);
                std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
                rows.back().append(value);
            }
        }
        return rows;
    }

    // share: of the largest logit, that rounding may take.
    static void compare(const QList<double> &found, const QJsonArray &expected, double share) {
        QCOMPARE(found.size(), expected.size());
        double largest = 0;
        double error = 0;
        for (qsizetype i = 0; i < found.size(); ++i) {
            largest = std::max(largest, std::abs(expected[i].toDouble()));
            error = std::max(error, std::isfinite(found[i]) ? std::abs(found[i] - expected[i].toDouble()) : INFINITY);
        }
        QVERIFY2(error <= share * largest, qPrintable(QString("off by %1 of %2").arg(error).arg(largest)));
    }

    // The recorded model as a checkpoint of another type: its config says so, its weights are converted at load.
    static QString withDtype(const QString &model, const QString &dtype, const QTemporaryDir &folder) {
        QJsonObject config = readObject(fixture("models/" + model + "/config.json"));
        config["dtype"] = dtype;
        config.remove("torch_dtype");
        QFile file(folder.filePath("config.json"));
        bool written = file.open(QIODevice::WriteOnly) && file.write(QJsonDocument(config).toJson()) > 0;
        const QDir weights(fixture("models/" + model));
        for (const QString &name : weights.entryList({"model*"}, QDir::Files))
            written = written && QFile::copy(weights.filePath(name), folder.filePath(name));
        if (!written)
            qFatal("cannot write the test's own folder");
        return folder.path();
    }

    static QJsonObject recordedCollectives() {
        return readObject(QStringLiteral(TPSCOPE_TEST_DATA "/recorded/collectives.json"))["models"].toObject();
    }

private slots:
    void initTestCase() {
        m_models = readObject(QStringLiteral(TPSCOPE_TEST_DATA "/recorded/forwards.json"))["models"].toObject();
        QVERIFY(!m_models.isEmpty());
    }

    void halfPrecisionEqualsTransformers_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("dtype");
        for (const QString &model : m_models.keys())
            for (const QString dtype : {"bfloat16", "float16"})
                if (m_models[model].toObject()[dtype].isArray())
                    QTest::newRow(qPrintable(model + " " + dtype)) << model << dtype;
    }

    void halfPrecisionEqualsTransformers() {
        QFETCH(QString, model);
        QFETCH(QString, dtype);
        QTemporaryDir folder;
        const QString ids = joined(readObject(fixture("models/" + model + "/expected.json"))["input_ids"].toArray());
        const ProgramRun run = runTpscope({"run", "--model", withDtype(model, dtype, folder), "--tp", "2", "--input-ids",
                                           ids, "--new-tokens", "1", "--warmup", "0", "--logits",
                                           folder.filePath("logits.st"), "--format", "json", "--quiet"});
        QVERIFY2(run.exitCode == 0, run.err);
        QCOMPARE(run.json()["environment"].toObject()["dtype"].toString(), dtype);
        const auto found = lastLogits(folder.filePath("logits.st"));
        QCOMPARE(found.size(), 1);
        compare(found[0], m_models[model].toObject()[dtype].toArray(),
                tpscope::oracleTolerance(dtype == "float16" ? tpscope::DType::F16 : tpscope::DType::BF16));
    }

    void leftPaddedBatchEqualsTransformers_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("tp");
        for (const QString &model : m_models.keys())
            for (const int tp : {1, 2})
                if (tp == 1 || !model.endsWith("mi36")) // whose forward upstream refuses at tp 2
                    QTest::addRow("%s tp %d", qPrintable(model), tp) << model << tp;
    }

    void leftPaddedBatchEqualsTransformers() {
        QFETCH(QString, model);
        QFETCH(int, tp);
        const QJsonObject recorded = m_models[model].toObject()["padded"].toObject();
        QStringList prompts;
        for (const QJsonValue &prompt : recorded["prompts"].toArray())
            prompts << joined(prompt.toArray());
        QTemporaryDir folder;
        const ProgramRun run = runTpscope({"run", "--model", fixture("models/" + model), "--tp", QString::number(tp),
                                           "--plan", tp == 1 ? "none" : "auto", "--input-ids", prompts.join(';'),
                                           "--new-tokens", "4", "--warmup", "0", "--logits",
                                           folder.filePath("logits.st"), "--format", "json", "--quiet"});
        QVERIFY2(run.exitCode == 0, run.err);
        QCOMPARE(run.json()["output_ids"].toArray(), recorded["ids"].toArray());
        const auto found = lastLogits(folder.filePath("logits.st"));
        QCOMPARE(found.size(), prompts.size());
        for (qsizetype row = 0; row < found.size(); ++row)
            compare(found[row], recorded["last_logits"].toArray()[row].toArray(), 1e-4);
    }

    // With a mask, transformers pairs query and kv heads by the configured ratio, so that replicated kv heads, wrong
    // without a mask, make the forward fail.
    void aMaskOfPaddingPairsHeadsByTheConfiguredRatio() {
        QTemporaryDir folder;
        QFile plan(folder.filePath("plan.yaml"));
        QVERIFY(plan.open(QIODevice::WriteOnly));
        plan.write("tp_plan:\n  model.layers.*.self_attn.k_proj: replicate\n  model.layers.*.self_attn.v_proj: replicate\n");
        plan.close();
        const QStringList common{"run", "--model", fixture("models/llama"), "--tp", "2", "--plan", plan.fileName(),
                                 "--new-tokens", "2", "--format", "json", "--quiet", "--input-ids"};
        const ProgramRun even = runTpscope(common + QStringList{"1,2,3;4,5,6"});
        QVERIFY2(even.exitCode == 0, even.err);
        const ProgramRun padded = runTpscope(common + QStringList{"1,2,3;4,5"});
        QCOMPARE(padded.exitCode, 1);
        QVERIFY2(padded.err.contains("forward-error"), padded.err);
        const ProgramRun forced = runTpscope(common + QStringList{"1,2,3;4,5", "--force"});
        QCOMPARE(forced.exitCode, 3);
        QVERIFY2(forced.err.contains("query heads meet"), forced.err);
    }

    void gradientsOfPaddedPromptsAndCheckpointingAreRight_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QStringList>("more");
        const QStringList padded{"--input-ids", "17,203,5,88,41;64,3"};
        const QStringList checkpointing{"--gradient-checkpointing"};
        for (const char *model : {"qwen3", "mixtral", "gemma3_text", "deepseek_v3"}) {
            QTest::addRow("%s padded", model) << model << padded;
            QTest::addRow("%s checkpointing", model) << model << checkpointing;
            QTest::addRow("%s both", model) << model << padded + checkpointing;
        }
        QTest::newRow("only norms train") << "qwen3" << checkpointing + QStringList{"--trainable", "*_norm.weight"};
    }

    void gradientsOfPaddedPromptsAndCheckpointingAreRight() {
        QFETCH(QString, model);
        QFETCH(QStringList, more);
        const ProgramRun run = runTpscope(QStringList{"gradcheck", "--model", fixture("models/" + model), "--tp", "2",
                                                      "--format", "json", "--quiet"} + more);
        QVERIFY2(run.exitCode == 0, run.err + run.out);
        QCOMPARE(run.json()["verdict"].toString(), QString("exact"));
        QVERIFY(!run.json()["parameters"].toArray().isEmpty());
    }

    // Counts and bytes: what transformers exchanged, what our ranks exchange, and what the rules say.
    void collectivesEqualTransformers_data() {
        QTest::addColumn<QString>("model");
        for (const QString &model : recordedCollectives().keys())
            QTest::newRow(qPrintable(model)) << model;
    }

    void collectivesEqualTransformers() {
        QFETCH(QString, model);
        const QJsonObject recorded = recordedCollectives()[model].toObject();
        const QStringList common{"--model", fixture("models/" + model), "--tp", "2", "--format", "json", "--quiet"};
        for (const char *backend : {"gloo", "simulated"}) {
            const ProgramRun run = runTpscope(QStringList{"run", "--backend", backend, "--new-tokens", "4"} + common);
            QVERIFY2(run.exitCode == 0, run.err);
            QCOMPARE(run.json()["collectives"].toObject(), recorded["decode_step"].toObject());
        }
        const ProgramRun training = runTpscope(QStringList{"gradcheck"} + common);
        QVERIFY2(training.exitCode <= 1, training.err);
        const QJsonObject counted = training.json()["collectives"].toObject();
        QCOMPARE(counted["measured"].toObject(), recorded["training_step"].toObject());
        QCOMPARE(counted["predicted"].toObject(), recorded["training_step"].toObject());
    }

    // Accumulated twice, post-accumulate-grad hooks sum again, computed once or again.
    void checkpointingChangesNoHook() {
        for (const char *hooks : {"module-backward", "post-accumulate-grad", "tensor-grad"}) {
            QStringList command{"gradcheck", "--model", fixture("models/qwen3"), "--tp", "2", "--hooks", hooks,
                                "--micro-steps", "2", "--format", "json", "--quiet"};
            const ProgramRun plain = runTpscope(command);
            const ProgramRun again = runTpscope(command << "--gradient-checkpointing");
            QCOMPARE(again.exitCode, plain.exitCode);
            const QJsonArray expected = plain.json()["parameters"].toArray();
            const QJsonArray found = again.json()["parameters"].toArray();
            QCOMPARE(found.size(), expected.size());
            for (qsizetype i = 0; i < found.size(); ++i) {
                QCOMPARE(found[i]["name"], expected[i]["name"]);
                QCOMPARE(found[i]["reductions"], expected[i]["reductions"]);
                QVERIFY(std::abs(found[i]["ratio"].toDouble() - expected[i]["ratio"].toDouble()) < 1e-3);
            }
        }
    }
};

QTEST_GUILESS_MAIN(RecordedForwardsTest)
#include "recordedforwardstest.moc"
