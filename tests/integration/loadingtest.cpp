// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include "probe/randommodel.h"
#include "program.h"
#include "session/workspace.h"

// What a rank reads and keeps: its own shards, and no more of the model.
class LoadingTest : public QObject {
    Q_OBJECT

    static qint64 note(const ProgramRun &run, const char *name) {
        return run.json()["environment"].toObject()["notes"].toObject()[name].toString().toLongLong();
    }

    static void write(const QString &path, const QByteArray &text) {
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
    }

private slots:
    void aRankCopiesItsShardsBytes_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<int>("tp");
        for (const char *model : {"llama", "qwen3", "mixtral", "phi3", "gpt_oss", "deepseek_v3"}) // one is in two files
            for (const int tp : {1, 2})
                QTest::addRow("%s tp %d", model, tp) << model << tp;
    }

    void aRankCopiesItsShardsBytes() {
        QFETCH(QString, model);
        QFETCH(int, tp);
        const QString size = QString::number(tp);
        const QStringList plan{"--model", fixture("models/" + model), "--tp", size, "--plan", tp == 1 ? "none" : "auto"};
        const ProgramRun shard = runTpscope(QStringList{"shard", "--format", "json"} + plan);
        QVERIFY2(shard.exitCode == 0, shard.err);
        const ProgramRun run =
            runTpscope(QStringList{"run", "--new-tokens", "1", "--format", "json", "--quiet"} + plan);
        QVERIFY2(run.exitCode == 0, run.err);
        const qint64 own = shard.json()["bytes_per_rank"].toArray().first().toInteger();
        QCOMPARE(note(run, "shard_bytes_rank_0"), own);
        // A rank also reads the checkpoint's buffers (a router's correction), which nobody shards.
        const qint64 read = note(run, "bytes_read_rank_0");
        QVERIFY2(read >= own && read <= own + 4096, qPrintable(QString("%1 read of %2").arg(read).arg(own)));
    }

    // 230 MB of float32 weights: a rank that kept or copied all of them would be over the bound.
    void anonymousMemoryIsShardAndCache() {
        QTemporaryDir folder;
        write(folder.filePath("config.json"),
              R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
                  "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64,
                  "vocab_size": 48000, "max_position_embeddings": 2048, "tie_word_embeddings": false,
                  "rms_norm_eps": 1e-6, "torch_dtype": "float32", "hidden_act": "silu"})");
        const auto workspace = tpscope::openWorkspace(folder.filePath("config.json").toStdString());
        QVERIFY(workspace.has_value());
        const QString model = folder.filePath("model");
        QVERIFY(tpscope::writeRandomModel((*workspace)->model, 1, model.toStdString()).has_value());
        constexpr int tokens = 8;
        const ProgramRun run = runTpscope({"run", "--model", model, "--tp", "2", "--new-tokens", QString::number(tokens),
                                           "--warmup", "0", "--format", "json", "--quiet"});
        QVERIFY2(run.exitCode == 0, run.err);
        const qint64 shard = note(run, "shard_bytes_rank_0");
        const qint64 whole = QFileInfo(model + "/model.safetensors").size();
        QVERIFY(whole > shard * 3 / 2);
        const qint64 cache = 2 * 4 * 4 * 64 * (12 + tokens) * 4; // k and v, layers, kv heads, head_dim, positions, bytes
        const qint64 anonymous = note(run, "anonymous_bytes_rank_0");
        QVERIFY(anonymous > shard / 2); // it was measured
        QVERIFY2(anonymous <= shard + cache + 200'000'000, qPrintable(QString("%1 beside %2").arg(anonymous).arg(shard)));
        QVERIFY(shard + cache + 200'000'000 < whole + shard);
    }

    void quantisedCheckpointsAreRefused() {
        QTemporaryDir folder;
        QJsonObject config = readObject(fixture("models/llama/config.json"));
        config["quantization_config"] = QJsonObject{{"quant_method", "gptq"}, {"bits", 4}};
        write(folder.filePath("config.json"), QJsonDocument(config).toJson());
        QVERIFY(QFile::link(fixture("models/llama/model.safetensors"), folder.filePath("model.safetensors")));
        const ProgramRun run = runTpscope({"run", "--model", folder.path(), "--tp", "2", "--new-tokens", "1", "--quiet"});
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.err.contains("quanti") && run.err.contains("gptq"), run.err);
        QCOMPARE(run.err.trimmed().count('\n'), 0);
    }
};

QTEST_GUILESS_MAIN(LoadingTest)
#include "loadingtest.moc"
