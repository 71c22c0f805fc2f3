// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

class CompareVerbTest : public QObject {
    Q_OBJECT

    static QJsonObject compared(const QStringList &arguments) {
        const ProgramRun run = runTpscope(QStringList{"compare", "--before-hooks", "module-backward", "--after-hooks",
                                                   "post-accumulate-grad", "--format", "json"} +
                                       arguments);
        if (run.exitCode != 0)
            qWarning("%s", run.err.constData());
        return run.json();
    }

private slots:
    // The two published figures come out of the walk over the description, and say what they rest on.
    void simulatedNeuronGivesThePublishedFigures() {
        const QJsonObject json = compared({"--model", "qwen3-8b", "--tp", "2", "--backend", "simulated", "--profile",
                                           "reported-neuron-2core", "--new-tokens", "16"});
        const double before = json["before"].toObject()["per_token_ms"].toObject()["median"].toDouble();
        const double after = json["after"].toObject()["per_token_ms"].toObject()["median"].toDouble();
        QVERIFY2(qAbs(before - 140.0) < 0.5, qPrintable(QString::number(before)));
        QVERIFY2(qAbs(after - 37.6) < 0.2, qPrintable(QString::number(after)));
        QCOMPARE(json["verdict"].toString(), QString("not measured"));
        QVERIFY(json["ci95_ms"].isNull());
        QCOMPARE(json["before"].toObject()["source"].toString(), QString("simulated"));
        QCOMPARE(joined(json["launches"].toArray()), QString("257,1"));
    }

    void anotherModelOnThatProfileIsExtrapolated() {
        const ProgramRun run = runTpscope({"run", "--model", "llama-3.1-8b", "--tp", "2", "--backend", "simulated",
                                        "--profile", "reported-neuron-2core"});
        QVERIFY2(run.out.contains("extrapolat"), run.out);
    }

    // Nothing is compiled and hooks cost nothing in a native decode: the numbers say so.
    void glooMeasuresAndPredictsBreaks() {
        const QJsonObject json = compared({"--model", "qwen3-tiny", "--tp", "2", "--backend", "gloo", "--repeat", "2",
                                           "--new-tokens", "12"});
        QCOMPARE(joined(json["graph_breaks"].toArray()), QString("11,0"));
        QCOMPARE(json["outputs_equal"].toBool(), true);
        QVERIFY(json["max_abs_logit_error"].toDouble(1) < 1e-4);
        QCOMPARE(json["before"].toObject()["source"].toString(), QString("measured"));
        const QString verdict = json["verdict"].toString();
        QVERIFY2(QStringList({"faster", "slower", "no clear difference", "too few samples"}).contains(verdict),
                 qPrintable(verdict));
    }

    void resultFilesCompareAndReportsEscape() {
        QTemporaryDir folder;
        for (const char *name : {"a", "b"}) {
            const ProgramRun run = runTpscope({"run", "--model", "qwen3-tiny", "--tp", "2", "--backend", "gloo", "--out",
                                            folder.filePath(QString(name) + ".json")});
            QVERIFY2(run.exitCode == 0, run.err);
        }
        const QString html = folder.filePath("report.html");
        const QString markdown = folder.filePath("report.md");
        const ProgramRun run = runTpscope({"compare", folder.filePath("a.json"), folder.filePath("b.json"), "--report", html,
                                        "--report", markdown});
        QVERIFY2(run.exitCode == 0, run.err);
        for (const QString &path : {html, markdown}) {
            QFile file(path);
            QVERIFY(file.open(QIODevice::ReadOnly));
            const QByteArray text = file.readAll();
            QVERIFY2(text.contains("measured"), text.left(400));
        }
    }

    void theRecordingShows() {
        const ProgramRun run = runTpscope({"compare", "--recorded", "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        const QJsonObject json = run.json();
        QCOMPARE(joined(json["graph_breaks"].toArray()), QString("11,0"));
        for (const char *side : {"before", "after"}) {
            const QJsonObject trace = json[side].toObject();
            QCOMPARE(trace["backend"].toString(), QString("transformers"));
            QCOMPARE(trace["source"].toString(), QString("measured"));
            QVERIFY(!trace["environment"].toObject()["date"].toString().isEmpty());
            QVERIFY(!trace["environment"].toObject()["machine"].toString().isEmpty());
        }
    }

    void aSideThatCannotRunIsRefused() {
        QTemporaryDir folder;
        QFile file(folder.filePath("bad.yaml"));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("tp_plan:\n  model.layers.*.self_attn.o_proj: replicate\n");
        file.close();
        const ProgramRun run = runTpscope({"compare", "--model", "qwen3-tiny", "--tp", "2", "--backend", "gloo",
                                        "--before-plan", "auto", "--after-plan", file.fileName()});
        QCOMPARE(run.exitCode, 1);
        QVERIFY2(run.err.contains("after") && run.err.contains("forward-error"), run.err);
    }
};

QTEST_GUILESS_MAIN(CompareVerbTest)
#include "compareverbtest.moc"
