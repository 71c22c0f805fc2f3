// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTest>

#include "program.h"

// `tpscope shard --hash` against what transformers held on every rank.
class ShardVerbTest : public QObject {
    Q_OBJECT

private slots:
    void equalsTheRecordedRanks_data() {
        QTest::addColumn<QString>("file");
        const QDir folder(fixture("sharding"));
        for (const QString &name : folder.entryList({"*.json"}))
            QTest::newRow(qPrintable(name)) << folder.filePath(name);
        QVERIFY(!folder.entryList({"*.json"}).isEmpty());
    }

    void equalsTheRecordedRanks() {
        QFETCH(QString, file);
        const QJsonObject recorded = readObject(file);
        const int tp = recorded["tp"].toInt();
        const ProgramRun run = runTpscope({"shard", "--model", fixture("models/" + recorded["model"].toString()), "--plan",
                                        "auto", "--tp", QString::number(tp), "--hash", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject expected = recorded["parameters"].toObject();
        const QJsonArray actual = run.json()["parameters"].toArray();
        QCOMPARE(actual.size(), expected.size());
        for (const QJsonValue &value : actual) {
            const QJsonObject row = value.toObject();
            const QJsonObject want = expected[row["name"].toString()].toObject();
            QVERIFY2(!want.isEmpty(), qPrintable(row["name"].toString()));
            QCOMPARE(row["style"], want["style"]);
            QCOMPARE(row["placement"].toObject(), want["placement"].toObject());
            QCOMPARE(row["global_shape"].toArray(), want["global_shape"].toArray());
            QCOMPARE(row["local_shapes"].toArray(), want["local_shapes"].toArray());
            QCOMPARE(row["hashes"].toArray(), want["hashes"].toArray());
        }
    }

    // Random weights are the same model at every tp size.
    void randomWeightsDoNotDependOnTp() {
        const QString model = fixture("models/qwen3/config.json");
        const auto wholeHash = [&](const QStringList &plan) {
            const ProgramRun run = runTpscope(QStringList{"shard", "--model", model, "--hash", "--seed", "7", "--format",
                                                       "json"} + plan);
            for (const QJsonValue &row : run.json()["parameters"].toArray())
                if (row["name"].toString() == "model.norm.weight" ||
                    row["name"].toString() == "model.layers.1.input_layernorm.weight")
                    return row["hashes"].toArray().first().toString();
            return QString();
        };
        const QString one = wholeHash({"--plan", "none", "--tp", "1"});
        QVERIFY(!one.isEmpty());
        QCOMPARE(wholeHash({"--plan", "auto", "--tp", "2"}), one);
        QCOMPARE(wholeHash({"--plan", "auto", "--tp", "4"}), one);
    }
};

QTEST_GUILESS_MAIN(ShardVerbTest)
#include "shardverbtest.moc"
