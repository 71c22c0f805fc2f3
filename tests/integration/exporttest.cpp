// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include "probe/pythonlocator.h"
#include "program.h"

// Exported scripts run under real transformers and say what TPScope says.
class ExportTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    QString m_python;

    QString write(const QString &name, const QByteArray &text) {
        QFile file(m_folder.filePath(name));
        if (!file.open(QIODevice::WriteOnly | QIODevice::Truncate) || file.write(text) != text.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    // A script under torchrun on 2 ranks; its exit code and both outputs.
    ProgramRun torchrun(const QStringList &script) {
        QProcess process;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("OMP_NUM_THREADS", "1");
        environment.insert("HF_HUB_OFFLINE", "1");
        environment.insert("TMPDIR", m_folder.path());
        process.setProcessEnvironment(environment);
        process.start(m_python, QStringList{"-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
                                            "--nproc-per-node", "2"} + script);
        ProgramRun run;
        if (!process.waitForFinished(240000)) {
            process.kill();
            process.waitForFinished();
        }
        run.exitCode = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
        run.out = process.readAllStandardOutput();
        run.err = process.readAllStandardError();
        return run;
    }

    QString exported(const QString &to, const QString &plan) {
        const QString file = m_folder.filePath(to + ".py");
        const ProgramRun run = runTpscope({"export", "--model", fixture("models/qwen3"), "--plan", plan, "--tp", "2", "--to",
                                           to, "--out", file});
        if (run.exitCode != 0)
            qFatal("%s", run.err.constData());
        return file;
    }

private slots:
    void initTestCase() {
        const auto python = tpscope::findPython();
        if (!python)
            QSKIP(("not run: " + python.error().message).c_str());
        m_python = QString::fromStdString(python->string());
    }

    void pythonGeneratesWhatOurRanksGenerate() {
        const ProgramRun script = torchrun({exported("python", "auto")});
        QVERIFY2(script.exitCode == 0, script.err);
        const ProgramRun ours = runTpscope({"run", "--model", fixture("models/qwen3"), "--tp", "2", "--input-ids", "1,2,3,4",
                                            "--new-tokens", "8", "--format", "json", "--quiet"});
        QVERIFY2(ours.exitCode == 0, ours.err);
        const QString ids = joined(ours.json()["output_ids"].toArray().first().toArray(), ", ");
        QVERIFY2(script.out.contains("[[1, 2, 3, 4, " + ids.toLatin1() + "]]"), script.out + ids.toLatin1());
    }

    // By the config inside the script, with random weights, and on a checkpoint.
    void reproShowsWrongGradients_data() {
        QTest::addColumn<QStringList>("folder");
        QTest::newRow("random weights") << QStringList();
        QTest::newRow("a checkpoint") << QStringList{fixture("models/qwen3")};
    }

    void reproShowsWrongGradients() {
        QFETCH(QStringList, folder);
        const QString plan = write("plan.yaml", "tp_plan:\n  model.layers.*.self_attn.q_norm: replicate\n");
        const ProgramRun run = torchrun(QStringList{exported("repro", plan)} + folder);
        QVERIFY2(run.exitCode == 0, run.err);
        QVERIFY2(run.out.contains("gradient of model.layers.0.self_attn.q_norm.weight:"), run.out);
        QVERIFY2(run.out.contains("gradients: 2 wrong of 25"), run.out);
        QVERIFY2(run.out.contains("torch.compile: 1 graphs, 0 breaks"), run.out);
        QVERIFY(QDir(m_folder.path()).entryList({"repro-*"}, QDir::Dirs).isEmpty()); // nothing stays
    }
};

QTEST_GUILESS_MAIN(ExportTest)
#include "exporttest.moc"
