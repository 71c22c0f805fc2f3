// SPDX-License-Identifier: GPL-3.0-or-later
#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include "base/resources.h"
#include "probe/pythonlocator.h"
#include "program.h"

// The catalogue is what the installed library says, and what a next version changes is told rule by rule.
class PlansImportTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    // One of each form: plain, a base model of another name, experts, parts with a prefix, parts without a base model,
    // a part that is built only inside a whole.
    const QStringList m_kinds{"qwen3",           "gpt_neox", "mixtral",        "qwen2_5_vl",
                              "qwen2_5_vl_text", "llama4",   "t5_gemma_module"};

    QStringList only() const {
        QStringList words;
        for (const QString &kind : m_kinds)
            words << "--only" << kind;
        return words;
    }

    static QString read(const QString &path) {
        QFile file(path);
        return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
    }

    static bool write(const QString &path, const QString &text) {
        QFile file(path);
        return file.open(QIODevice::WriteOnly | QIODevice::Truncate) && file.write(text.toUtf8()) >= 0;
    }

    static QString shipped(const QString &kind) {
        return QString::fromStdString((tpscope::plansDir() / (kind.toStdString() + ".yaml")).string());
    }

    static QString change(const QJsonValue &rule) {
        return rule["change"].toString() + " " + rule["plan"].toString() + " " + rule["key"].toString() + " " +
               rule["before"].toString("-") + " " + rule["after"].toString("-");
    }

private slots:
    void importsWhatShips() {
        if (const auto python = tpscope::findPython(); !python)
            QSKIP(("not run: " + python.error().message).c_str());
        const QString folder = m_folder.filePath("imported");
        const QStringList import =
            QStringList{"plans", "import", "--quiet", "--format", "json", "--out", folder} + only();
        const ProgramRun first = runTpscope(import);
        QVERIFY2(first.exitCode == 0, first.err);
        const QJsonObject report = first.json();
        QCOMPARE(report["added"].toArray().size(), m_kinds.size());
        QVERIFY(report["failed"].toArray().isEmpty());
        QCOMPARE(QDir(folder).entryList(QDir::Files).size(), m_kinds.size());

        const ProgramRun again = runTpscope(import);
        QVERIFY2(again.exitCode == 0, again.err);
        QCOMPARE(again.json()["unchanged"].toInt(), m_kinds.size());

        const QString version = report["upstream"].toString();
        if (!read(shipped("qwen3")).contains("upstream: " + version + "\n"))
            QSKIP(qPrintable("only imported: the catalogue is not of " + version));
        for (const QString &kind : m_kinds)
            QCOMPARE(read(QDir(folder).filePath(kind + ".yaml")), read(shipped(kind)));
        const ProgramRun same = runTpscope(QStringList{"plans", "diff", "--quiet", "--format", "json"} + only());
        QVERIFY2(same.exitCode == 0, same.err + same.out);
        QVERIFY(same.json()["families"].toArray().isEmpty());
        QCOMPARE(same.json().value("after")["upstream"].toString(), version);
    }

    void diffTellsEachRule() {
        const QString folder = m_folder.filePath("edited");
        QVERIFY(QDir().mkpath(folder));
        QString text = read(shipped("mixtral"));
        text.replace("  layers.*.self_attn.o_proj: rowwise\n", "  layers.*.self_attn.o_proj: rowwise_split_input\n");
        text.replace("  layers.*.self_attn.v_proj: colwise\n", "  layers.*.self_attn.w_proj: colwise\n");
        text.replace("  layers.*.mlp.experts: ep_dispatch_experts\n", "");
        QVERIFY(text != read(shipped("mixtral")));
        QVERIFY(write(folder + "/mixtral.yaml", text));
        QVERIFY(write(folder + "/qwen3.yaml", read(shipped("qwen3"))));
        QVERIFY(write(folder + "/newest.yaml", "model_type: newest\nupstream: transformers 9.9\n"
                                               "class_tp_plan: {lm_head: colwise_gather_output}\n"));

        const QStringList kinds{"--only", "mixtral", "--only", "qwen3", "--only", "newest", "--only", "llama"};
        const ProgramRun run = runTpscope(QStringList{"plans", "diff", folder, "--format", "json"} + kinds);
        QCOMPARE(run.exitCode, 1);
        const QJsonArray families = run.json()["families"].toArray();
        QStringList told;
        for (const QJsonValue &family : families)
            told << family["name"].toString() + " " + family["change"].toString();
        QCOMPARE(told, (QStringList{"llama removed", "mixtral changed", "newest added"}));
        QStringList rules;
        for (const QJsonValue &rule : families.at(1)["rules"].toArray())
            rules << change(rule);
        QCOMPARE(rules, (QStringList{
                            "changed tp_plan model.layers.*.self_attn.o_proj rowwise rowwise_split_input",
                            "removed tp_plan model.layers.*.self_attn.v_proj colwise -",
                            "added tp_plan model.layers.*.self_attn.w_proj - colwise",
                            "removed ep_plan model.layers.*.mlp.experts ep_dispatch_experts -",
                        }));
        QCOMPARE(change(families.at(2)["rules"].toArray().at(0)), "added tp_plan lm_head - colwise_gather_output");

        const ProgramRun shown = runTpscope(QStringList{"plans", "diff", folder} + kinds);
        QCOMPARE(shown.exitCode, 1);
        QVERIFY2(shown.out.contains("  ~ model.layers.*.self_attn.o_proj: rowwise -> rowwise_split_input\n"),
                 shown.out);
        QVERIFY2(shown.out.contains("1 families added, 1 removed, 1 changed\n"), shown.out);
    }

    void theCatalogueDoesNotDifferFromItself() {
        const ProgramRun run =
            runTpscope({"plans", "diff", QString::fromStdString(tpscope::plansDir().string()), "--format", "json"});
        QVERIFY2(run.exitCode == 0, run.err);
        QVERIFY(run.json()["families"].toArray().isEmpty());
        QVERIFY(run.json().value("before")["families"].toInt() >= 150);
    }

    void listsAndShows() {
        const QJsonArray plans = runTpscope({"plans", "list", "--format", "json"}).json()["plans"].toArray();
        QVERIFY(plans.size() >= 150);
        for (const QJsonValue &plan : plans) {
            QVERIFY(!plan["name"].toString().isEmpty());
            QCOMPARE(plan["model_type"].toString(), plan["name"].toString());
            QVERIFY(plan["upstream"].toString().startsWith("transformers "));
        }
        const QJsonObject shown = runTpscope({"plans", "show", "qwen2_5_vl", "--format", "json"}).json();
        QCOMPARE(shown["model_type"].toString(), QString("qwen2_5_vl"));
        const QJsonValue rules = shown.value("tp_plan");
        QCOMPARE(rules["model.language_model.layers.*.self_attn.q_proj"].toString(), QString("colwise"));
        QCOMPARE(shown.value("tp_plan")["lm_head"].toString(), QString("colwise_gather_output"));
    }

    void showsWhatAConfigChooses() {
        const QString path = m_folder.filePath("internvl.json");
        QVERIFY(write(path, "{\"model_type\": \"internvl\", \"text_config\": {\"model_type\": \"qwen3\"}}"));
        const QJsonObject shown = runTpscope({"plans", "show", path, "--format", "json"}).json();
        QCOMPARE(shown["name"].toString(), QString("internvl"));
        QCOMPARE(shown.value("sub_models")["model.language_model"].toString(), QString("qwen3"));
        QCOMPARE(shown.value("tp_plan")["model.language_model.layers.*.self_attn.q_norm"].toString(),
                 QString("replicated_with_grad_allreduce"));
    }

    void saysWhatIsWrong_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("said");
        QTest::newRow("no folder") << QStringList{"diff", "/nonexistent/plans"} << "no such folder";
        QTest::newRow("no interpreter") << QStringList{"import", "--python", "/nonexistent/python"} << "--python";
        QTest::newRow("both") << QStringList{"diff", "plans", "--python", "python3"} << "--python";
        QTest::newRow("no config") << QStringList{"show", "/nonexistent/config.json"} << "/nonexistent/config.json";
        QTest::newRow("no such plan") << QStringList{"show", "qwen33"} << "qwen3";
    }

    void saysWhatIsWrong() {
        QFETCH(QStringList, words);
        QFETCH(QString, said);
        const ProgramRun run = runTpscope(QStringList{"plans"} + words);
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.err.contains(said.toUtf8()), run.err);
        QVERIFY2(run.out.isEmpty(), run.out);
    }

    void anUnknownFamilyIsRefused() {
        if (const auto python = tpscope::findPython(); !python)
            QSKIP(("not run: " + python.error().message).c_str());
        const QString folder = m_folder.filePath("nothing");
        const ProgramRun run = runTpscope({"plans", "import", "--quiet", "--only", "qwen33", "--out", folder});
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.err.contains("qwen33"), run.err);
        QVERIFY(!QDir(folder).exists());
    }
};

QTEST_GUILESS_MAIN(PlansImportTest)
#include "plansimporttest.moc"
