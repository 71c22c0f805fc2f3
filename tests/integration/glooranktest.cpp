// SPDX-License-Identifier: GPL-3.0-or-later
#include <QFile>
#include <QProcessEnvironment>
#include <QTcpServer>
#include <QTemporaryDir>
#include <QTest>

#include <memory>
#include <vector>

#include "program.h"

// `tpscope rank` started by somebody else, as torchrun starts it on many hosts.
class GlooRankTest : public QObject {
    Q_OBJECT

    static QProcessEnvironment environment(int rank, int size, int port, const QString &request) {
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("RANK", QString::number(rank));
        environment.insert("LOCAL_RANK", QString::number(rank));
        environment.insert("WORLD_SIZE", QString::number(size));
        environment.insert("MASTER_ADDR", "127.0.0.1");
        environment.insert("MASTER_PORT", QString::number(port));
        if (!request.isEmpty())
            environment.insert("TPSCOPE_REQUEST", request);
        return environment;
    }

    static int freePort() {
        QTcpServer server;
        server.listen(QHostAddress::LocalHost);
        return server.serverPort();
    }

    static QString writeRequest(const QTemporaryDir &folder, const QJsonObject &expected, int tp) {
        const QJsonObject request{{"model", fixture("models/qwen3")},
                                  {"plan", "auto"},
                                  {"plan_text", ""},
                                  {"tp", tp},
                                  {"ep", 1},
                                  {"hooks", "tensor-grad"},
                                  {"collectives", "one-shot"},
                                  {"input_ids", QJsonArray{expected["input_ids"].toArray()}},
                                  {"new_tokens", 16},
                                  {"warmup_tokens", 1},
                                  {"repeat", 1},
                                  {"seed", 0},
                                  {"threads", 1},
                                  {"attention", ""},
                                  {"timeout_s", 120},
                                  {"logits_file", ""},
                                  {"upstream", "5.24"},
                                  {"events", false}};
        QFile file(folder.filePath("request.json"));
        file.open(QIODevice::WriteOnly);
        file.write(QJsonDocument(request).toJson());
        return file.fileName();
    }

private slots:
    void ranksMeetWithoutALauncher() {
        const QJsonObject expected = readObject(fixture("models/qwen3/expected.json"));
        const QTemporaryDir folder;
        const QString request = writeRequest(folder, expected, 2);
        const int port = freePort();
        std::vector<std::unique_ptr<QProcess>> ranks;
        for (int rank = 0; rank < 2; ++rank) {
            ranks.push_back(std::make_unique<QProcess>());
            ranks.back()->setProcessEnvironment(environment(rank, 2, port, request));
            ranks.back()->start(TPSCOPE_PROGRAM, {"rank"});
        }
        for (const auto &rank : ranks) {
            QVERIFY(rank->waitForFinished(180000));
            QVERIFY2(rank->exitCode() == 0, rank->readAllStandardError());
        }
        const QJsonObject result = QJsonDocument::fromJson(ranks[0]->readAllStandardOutput()).object();
        QCOMPARE(joined(result["output_ids"].toArray().first().toArray()),
                 joined(expected["greedy_tokens"].toArray()));
        QCOMPARE(result["hooks_registered"].toInt(), 4);
        QVERIFY(ranks[1]->readAllStandardOutput().isEmpty());
    }

    void aWrongPlaceIsSaid_data() {
        QTest::addColumn<int>("rank");
        QTest::addColumn<int>("size");
        QTest::addColumn<QString>("says");
        QTest::newRow("rank outside") << 2 << 2 << "RANK";
        QTest::newRow("another world size") << 0 << 1 << "WORLD_SIZE";
    }

    void aWrongPlaceIsSaid() {
        QFETCH(int, rank);
        QFETCH(int, size);
        QFETCH(QString, says);
        const QTemporaryDir folder;
        const QString request = writeRequest(folder, readObject(fixture("models/qwen3/expected.json")), 2);
        QProcess process;
        process.setProcessEnvironment(environment(rank, size, freePort(), request));
        process.start(TPSCOPE_PROGRAM, {"rank"});
        QVERIFY(process.waitForFinished(120000));
        QCOMPARE(process.exitCode(), 2);
        const QByteArray err = process.readAllStandardError();
        QVERIFY2(err.contains(says.toUtf8()), err);
    }

    void withoutAnyPlaceItSaysHowToStart() {
        QProcess process;
        QProcessEnvironment bare = QProcessEnvironment::systemEnvironment();
        for (const char *name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TPSCOPE_REQUEST"})
            bare.remove(name);
        process.setProcessEnvironment(bare);
        process.start(TPSCOPE_PROGRAM, {"rank"});
        QVERIFY(process.waitForFinished(120000));
        QCOMPARE(process.exitCode(), 2);
        const QByteArray err = process.readAllStandardError();
        QVERIFY2(err.contains("torchrun"), err);
    }
};

QTEST_GUILESS_MAIN(GlooRankTest)
#include "glooranktest.moc"
