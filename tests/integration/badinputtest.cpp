// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QElapsedTimer>
#include <QTcpServer>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>

#include "program.h"

// One clear message, the right exit code, nothing left behind.
class BadInputTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    QString write(const QString &name, const QByteArray &bytes) {
        QFile file(m_folder.filePath(name));
        QDir().mkpath(QFileInfo(file).path());
        if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    static QByteArray bytesOf(const QString &path) {
        QFile file(path);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }

    // A copy of the tiny model with one file replaced.
    QString modelWith(const QString &name, const QString &file, const QByteArray &bytes) {
        for (const char *part : {"config.json", "model.safetensors"})
            write(name + "/" + part, bytesOf(fixture(QString("models/qwen3/") + part)));
        write(name + "/" + file, bytes);
        return m_folder.filePath(name);
    }

    // Processes whose command line holds the text, this test's own apart.
    static int processesWith(const QByteArray &text) {
        int count = 0;
        for (const QString &pid : QDir("/proc").entryList(QDir::Dirs)) {
            const QByteArray command = bytesOf("/proc/" + pid + "/cmdline");
            count += command.contains(text) && pid.toLongLong() != QCoreApplication::applicationPid();
        }
        return count;
    }

private slots:
    void saysWhatIsWrong_data() {
        QTest::addColumn<QStringList>("arguments");
        QTest::addColumn<int>("exitCode");
        QTest::addColumn<QString>("says");
        const QByteArray weights = bytesOf(fixture("models/qwen3/model.safetensors"));
        QByteArray lying = weights;
        lying.replace(0, 8, QByteArray("\xff\xff\xff\xff\xff\x00\x00\x00", 8));
        QTest::newRow("no such model") << QStringList{"lint", "--model", "qwen3-tinny"} << 2 << "qwen3-tiny";
        QTest::newRow("no such plan") << QStringList{"lint", "--model", "qwen3-tiny", "--plan", "nowhere.yaml"} << 2
                                      << "nowhere.yaml";
        QTest::newRow("truncated weights")
            << QStringList{"run", "--model", modelWith("cut", "model.safetensors", weights.left(weights.size() / 2)),
                           "--tp", "2"}
            << 2 << "model.safetensors";
        QTest::newRow("header past the end")
            << QStringList{"run", "--model", modelWith("lying", "model.safetensors", lying), "--tp", "2"} << 2
            << "model.safetensors";
        QTest::newRow("wrong JSON type")
            << QStringList{"lint", "--model",
                           modelWith("types", "config.json",
                                     bytesOf(fixture("models/qwen3/config.json")).replace("\"hidden_size\": 64", "\"hidden_size\": \"64\""))}
            << 2 << "hidden_size";
        QTest::newRow("JSON syntax") << QStringList{"lint", "--model", modelWith("syntax", "config.json", "{\"a\": }")}
                                     << 2 << "config.json:1:";
        QTest::newRow("unknown model_type")
            << QStringList{"lint", "--model", write("unknown/config.json", R"({"model_type": "warp9"})")} << 2 << "warp9";
        QTest::newRow("YAML syntax") << QStringList{"lint", "--model", "qwen3-tiny", "--plan",
                                                    write("broken.yaml", "tp_plan:\n  a: [colwise\n")}
                                     << 2 << "broken.yaml:";
        QTest::newRow("tp 0") << QStringList{"lint", "--model", "qwen3-tiny", "--tp", "0"} << 2 << "--tp 0";
        QTest::newRow("tp not a number") << QStringList{"lint", "--model", "qwen3-tiny", "--tp", "two"} << 2 << "two";
        QTest::newRow("unknown verb") << QStringList{"frobnicate"} << 2 << "frobnicate";
        QTest::newRow("unknown hooks") << QStringList{"graph", "--model", "qwen3-tiny", "--hooks", "backward"} << 2
                                       << "module-backward";
        QTest::newRow("id outside the vocabulary")
            << QStringList{"run", "--model", "qwen3-tiny", "--tp", "2", "--input-ids", "1,999"} << 2 << "999";
        QTest::newRow("no such profile") << QStringList{"run", "--model", "qwen3-tiny", "--backend", "simulated",
                                                        "--profile", "warp"}
                                         << 2 << "warp";
        QTest::newRow("more ranks than heads") << QStringList{"run", "--model", "qwen3-tiny", "--tp", "8"} << 1
                                               << "forward-error";
    }

    void saysWhatIsWrong() {
        QFETCH(QStringList, arguments);
        QFETCH(int, exitCode);
        QFETCH(QString, says);
        const ProgramRun run = runTpscope(arguments, 60000);
        QVERIFY2(run.exitCode == exitCode, run.err + "\nexit " + QByteArray::number(run.exitCode));
        QVERIFY2(run.err.contains(says.toUtf8()), run.err);
        QVERIFY2(run.err.count('\n') <= 12, run.err);
    }

    void aRankKilledDuringDecodeEndsTheRun() {
        QProcess process;
        process.start(TPSCOPE_PROGRAM, {"run", "--model", "qwen3-tiny", "--tp", "2", "--new-tokens", "100", "--repeat",
                                        "1000", "--events", "-"});
        QVERIFY(process.waitForStarted());
        // Decode has begun once the first event batch arrives.
        QByteArray out;
        QElapsedTimer timer;
        timer.start();
        while (!out.contains("\"decode\"") && timer.elapsed() < 120000 && process.waitForReadyRead(60000))
            out += process.readAll();
        QVERIFY2(out.contains("\"decode\""), process.readAllStandardError());
        qint64 victim = 0;
        for (const QString &pid : QDir("/proc").entryList(QDir::Dirs)) {
            const QByteArray stat = bytesOf("/proc/" + pid + "/stat");
            const QList<QByteArray> fields = stat.mid(stat.lastIndexOf(')') + 2).split(' ');
            if (fields.size() > 1 && fields[1].toLongLong() == process.processId())
                victim = pid.toLongLong();
        }
        QVERIFY(victim > 0);
        QCOMPARE(::kill(static_cast<pid_t>(victim), SIGKILL), 0);
        QVERIFY(process.waitForFinished(60000));
        QCOMPARE(process.exitCode(), 3);
        const QByteArray err = process.readAllStandardError();
        QVERIFY2(err.contains("rank ") && err.contains("decode"), err);
        QCOMPARE(processesWith(QByteArray("tpscope\0rank", 12)), 0);
    }

    void cancelledRunLeavesNothing() {
        QProcess process;
        process.start(TPSCOPE_PROGRAM, {"run", "--model", "qwen3-tiny", "--tp", "2", "--new-tokens", "100", "--repeat",
                                        "1000", "--events", "-"});
        QByteArray out;
        while (!out.contains("\"decode\"") && process.waitForReadyRead(60000))
            out += process.readAll();
        process.terminate();
        QVERIFY(process.waitForFinished(60000));
        QCOMPARE(process.exitCode(), 130);
        QCOMPARE(processesWith(QByteArray("tpscope\0rank", 12)), 0);
    }

    void aTakenPortIsNamed() {
        QTcpServer server;
        QVERIFY(server.listen(QHostAddress::LocalHost));
        const ProgramRun run = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--port",
                                        QString::number(server.serverPort())},
                                       60000);
        QVERIFY(run.exitCode == 2 || run.exitCode == 3);
        QVERIFY2(run.err.contains(QByteArray::number(server.serverPort())), run.err);
    }
};

QTEST_GUILESS_MAIN(BadInputTest)
#include "badinputtest.moc"
