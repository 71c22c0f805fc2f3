// SPDX-License-Identifier: GPL-3.0-or-later
// docs/codes: each code of lint has a page, and the example of a page gives its finding. `tpscope explain` shows them.
//
// Form of a page: the title "# CODE: title of the table"; the example, in blocks of three kinds: sh (the command), json
// (config.json, where the command names it) and yaml (plan.yaml, likewise); from the line "What to do:" on such blocks
// for the corrected form, as far as they differ. Instead of an example "No example: why".
#include <QDir>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include "program.h"

namespace {

struct Example {
    QString command, config, plan;
};

// The blocks of a part of a page over those of what it corrects.
Example exampleIn(const QString &text, Example over = {}) {
    static const QRegularExpression block("^```(sh|json|yaml)\n(.*?)^```$",
                                          QRegularExpression::MultilineOption |
                                              QRegularExpression::DotMatchesEverythingOption);
    for (auto match = block.globalMatch(text); match.hasNext();) {
        const QRegularExpressionMatch found = match.next();
        const QString kind = found.captured(1);
        (kind == "sh" ? over.command : kind == "json" ? over.config : over.plan) = found.captured(2);
    }
    return over;
}

struct Page {
    QString text, noExample;
    Example example;
    std::optional<Example> corrected;
};

Page parsed(const QString &text) {
    Page page;
    page.text = text;
    const qsizetype advice = text.indexOf("\nWhat to do: ");
    page.example = exampleIn(text.left(advice));
    if (advice >= 0 && text.indexOf("```", advice) >= 0)
        page.corrected = exampleIn(text.mid(advice), page.example);
    static const QRegularExpression without("\nNo example: (\\S.*\\.)$",
                                            QRegularExpression::DotMatchesEverythingOption);
    page.noExample = without.match(text.left(advice).trimmed()).captured(1);
    return page;
}

QStringList codesIn(const QJsonObject &report) {
    QStringList out;
    for (const QJsonValue &value : report["diagnostics"].toArray())
        out << value["code"].toString();
    return out;
}

} // namespace

class ExplainTest : public QObject {
    Q_OBJECT

    static QDir source() { return QDir(QStringLiteral(TPSCOPE_TEST_DATA "/../..")); }
    static QDir pages() { return QDir(source().filePath("docs/codes")); }

    static QJsonArray table() { return runTpscope({"explain", "--format", "json"}).json()["codes"].toArray(); }

    static QString pageOf(const QString &code) {
        QFile file(pages().filePath(code + ".md"));
        return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
    }

    // Runs the command of an example as it stands, with the example's files at its working directory.
    static ProgramRun lint(const Example &example) {
        QTemporaryDir folder;
        QStringList words = example.command.simplified().split(' ');
        if (words.size() < 4 || words.takeFirst() != "tpscope" || words.takeFirst() != "lint")
            return {-1, {}, "no `tpscope lint` command: " + example.command.toUtf8()};
        const std::pair<const char *, QString> files[] = {{"config.json", example.config}, {"plan.yaml", example.plan}};
        for (const auto &[name, text] : files) {
            QFile file(folder.filePath(name));
            if (!file.open(QIODevice::WriteOnly) || file.write(text.toUtf8()) < 0)
                return {-1, {}, "cannot write the test's own file"};
            words.replaceInStrings(QRegularExpression("^" + QRegularExpression::escape(name) + "$"), file.fileName());
        }
        words.replaceInStrings(QRegularExpression("^tests/"), source().filePath("tests/"));
        return runTpscope(QStringList{"lint", "--format", "json"} + words, 60000);
    }

private slots:
    void eachCodeHasAPage_data() {
        QTest::addColumn<QJsonObject>("info");
        const QJsonArray codes = table();
        QVERIFY(codes.size() > 40);
        for (const QJsonValue &value : codes)
            QTest::newRow(qPrintable(value["code"].toString())) << value.toObject();
    }

    void eachCodeHasAPage() {
        QFETCH(QJsonObject, info);
        const QString code = info["code"].toString();
        const QString text = pageOf(code);
        QVERIFY2(text.startsWith("# " + code + ": " + info["title"].toString() + "\n"), qPrintable(text));
        const QString severity = info["severity"].toString();
        const QString kind = severity == "error" ? "Error" : severity == "warning" ? "Warning" : "Information";
        const QString when = info["training_only"].toBool() ? " when training" : ". ";
        QVERIFY2(text.contains("\n\n" + kind + when), qPrintable(text));
        QVERIFY(text.contains("\nSource: ") && text.contains("\nWhat to do: ") && text.endsWith('\n'));
        const qsizetype lines = text.count('\n');
        QVERIFY2(lines >= 10 && lines <= 25, qPrintable(QString::number(lines)));

        const Page page = parsed(text);
        QVERIFY2(page.noExample.isEmpty() != page.example.command.isEmpty(), qPrintable(text));
        if (!page.noExample.isEmpty())
            return;
        const ProgramRun run = lint(page.example);
        QVERIFY2(codesIn(run.json()).contains(code), run.out + run.err);
        // The corrected form is what it says: no such finding, no error of any other kind.
        if (!page.corrected)
            return;
        QVERIFY(page.corrected->command != page.example.command || page.corrected->plan != page.example.plan ||
                page.corrected->config != page.example.config);
        const ProgramRun again = lint(*page.corrected);
        QVERIFY2(again.exitCode == 0, again.out + again.err);
        QVERIFY2(!codesIn(again.json()).contains(code), again.out + again.err);
    }

    void noPageIsLeftOver() {
        QStringList known;
        for (const QJsonValue &value : table())
            known << value["code"].toString() + ".md";
        QCOMPARE(pages().entryList(QDir::Files, QDir::Name), known); // ascending, both
    }

    void pageIsShown() {
        const ProgramRun run = runTpscope({"explain", "TP101"});
        QCOMPARE(run.exitCode, 0);
        QCOMPARE(QString::fromUtf8(run.out), pageOf("TP101"));
        QCOMPARE(runTpscope({"explain", "tp101"}).out, run.out); // as people type it
        const QJsonObject json = runTpscope({"explain", "TP101", "--format", "json"}).json();
        QCOMPARE(json["page"].toString(), pageOf("TP101"));
        QCOMPARE(json["code"].toString(), QString("TP101"));
    }

    void listHasALineForEachCode() {
        const ProgramRun run = runTpscope({"explain"});
        QCOMPARE(run.exitCode, 0);
        for (const QJsonValue &value : table())
            QVERIFY(QRegularExpression("^" + value["code"].toString() + " .*" +
                                           QRegularExpression::escape(value["title"].toString()) + "$",
                                       QRegularExpression::MultilineOption)
                        .match(run.out)
                        .hasMatch());
    }

    void unknownCodeNamesTheNearest() {
        const ProgramRun run = runTpscope({"explain", "TP1O1"});
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.out.isEmpty() && run.err.contains("TP1O1") && run.err.contains("nearest: TP101"), run.err);
        const ProgramRun far = runTpscope({"explain", "everything"});
        QVERIFY2(far.exitCode == 2 && !far.err.contains("nearest"), far.err);
    }

    // Lint for a pre-commit hook or a CI job: several files, one log, the worst exit status.
    void severalFilesAreJudgedInOneCall() {
        QTemporaryDir folder;
        const auto write = [&](const QString &name, const QByteArray &text) {
            QFile file(folder.filePath(name));
            if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size())
                qFatal("cannot write the test's own file");
            return file.fileName();
        };
        const QString good = write("good.yaml", "tp_plan:\n  lm_head: colwise_gather_output\n");
        const QString bad = write("bad.yaml", "tp_plan:\n  lm_head: colwise\n");
        const QString broken = write("broken.yaml", "tp_plan: [\n");
        const QStringList call = {"lint", "--model", "qwen3-tiny", "--tp", "2"};
        QCOMPARE(runTpscope(call + QStringList{good, good}).exitCode, 0);
        const ProgramRun two = runTpscope(call + QStringList{good, bad});
        QVERIFY2(two.exitCode == 1 && two.out.contains("bad.yaml:2:3: error TP110"), two.out + two.err);
        const ProgramRun log = runTpscope(call + QStringList{"--format", "sarif", bad, broken, good});
        QVERIFY2(log.exitCode == 2 && log.err.contains("broken.yaml"), log.err);
        const QJsonObject run = log.json()["runs"].toArray().at(0).toObject();
        QCOMPARE(run["artifacts"].toArray().size(), 2);
        QCOMPARE(run["results"].toArray().at(0)["ruleId"].toString(), QString("TP110"));
        QCOMPARE(runTpscope(call + QStringList{"--format", "json", good, bad}).json()["plans"].toArray().size(), 2);
        QCOMPARE(runTpscope(call + QStringList{"--plan", good, bad}).exitCode, 2); // one or the other
        const ProgramRun exported =
            runTpscope({"export", "--model", "qwen3-tiny", "--tp", "2", "--plan", bad, "--to", "sarif"});
        QVERIFY2(exported.exitCode == 0, exported.err);
        const QJsonArray results = exported.json()["runs"].toArray().at(0)["results"].toArray();
        QCOMPARE(results.at(0)["ruleId"].toString(), QString("TP110"));
    }

    // pre-commit appends a hook's args and the files to its entry.
    void theHookIsACallThatLintTakes() {
        QFile hooks(source().filePath(".pre-commit-hooks.yaml"));
        QVERIFY(hooks.open(QIODevice::ReadOnly));
        const QString text = QString::fromUtf8(hooks.readAll());
        const auto valueOf = [&](const QString &key) {
            const QRegularExpression line("^[- ] " + key + ": (.+)$", QRegularExpression::MultilineOption);
            return line.match(text).captured(1);
        };
        QCOMPARE(valueOf("id"), QString("tpscope-lint"));
        QCOMPARE(valueOf("language"), QString("system"));
        const QRegularExpression files(valueOf("files"));
        QVERIFY(files.isValid() && files.match("plans/my_tp_plan.v2.yaml").hasMatch());
        QVERIFY(!files.match("a.yaml").hasMatch());
        QStringList words = valueOf("entry").split(' ');
        QCOMPARE(words.takeFirst(), QString("tpscope"));
        QTemporaryDir folder;
        QFile plan(folder.filePath("tp_plan.yaml"));
        QVERIFY(plan.open(QIODevice::WriteOnly) && plan.write("tp_plan:\n  lm_head: colwise\n") > 0);
        plan.close();
        const ProgramRun run = runTpscope(words + QStringList{"--model", "qwen3-tiny", "--tp", "2", plan.fileName()});
        QVERIFY2(run.exitCode == 1 && run.out.contains("TP110"), run.out + run.err);
    }
};

QTEST_GUILESS_MAIN(ExplainTest)
#include "explaintest.moc"
