// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QtTest>

#include "base/resources.h"
#include "plan/plandocument.h"

using namespace tpscope;

namespace {

// One line a rule: "key=style @keyline:column styleline:column", "!" before what is no text, "<" before merged ones.
QString shown(const PlanDocument &document) {
    QStringList lines;
    for (const PlanRule &rule : document.rules)
        lines << QString("%1%2%3=%4%5 @%6:%7 %8:%9")
                     .arg(rule.merged ? "<" : "", rule.keyIsText ? "" : "!", QString::fromStdString(rule.key),
                          rule.styleIsText ? "" : "!", QString::fromStdString(rule.style))
                     .arg(rule.keySpan.line)
                     .arg(rule.keySpan.column)
                     .arg(rule.styleSpan.line)
                     .arg(rule.styleSpan.column);
    return lines.join("\n");
}

std::string piece(const PlanDocument &document, const SourceSpan &span) {
    return document.text.substr(span.offset, span.length);
}

} // namespace

class PlanDocumentTest : public QObject {
    Q_OBJECT

private slots:
    void rules_data();
    void rules();
    void spansCoverWhatIsWritten();
    void fields();
    void forms();
    void refused_data();
    void refused();
    void filesThatAreNone();
    void sizeAndDepth();
    void mergesWithoutEnd();
};

void PlanDocumentTest::rules_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QString>("expected");
    const auto row = [](const char *name, const QByteArray &text, const QString &expected) {
        QTest::newRow(name) << text << expected;
    };
    row("project form", "tp_plan:\n  a.b: colwise # why\n  c: rowwise\n", "a.b=colwise @2:3 2:8\nc=rowwise @3:3 3:6");
    row("bare mapping", "a: colwise\n", "a=colwise @1:1 1:4");
    row("json", "{\"tp_size\": 2,\n\t\"tp_plan\": {\"a\": \"colwise\",\n\t\t\"b\": null}}",
        "a=colwise @2:14 2:19\nb=!null @3:3 3:8");
    row("windows line ends", "tp_plan:\r\n  a: b\r\n  c: d\r\n", "a=b @2:3 2:6\nc=d @3:3 3:6");
    row("old line ends", "tp_plan:\r  a: b\r  c: d\r", "a=b @2:3 2:6\nc=d @3:3 3:6");
    row("byte-order mark", "\xEF\xBB\xBF" "a: b\nc: d\n", "a=b @1:1 1:4\nc=d @2:1 2:4");
    row("columns are characters", "tp_plan: {\xC3\xA9\xF0\x9F\x98\x80: b, c: d}\n",
        QString::fromUtf8("\xC3\xA9\xF0\x9F\x98\x80=b @1:11 1:15\nc=d @1:18 1:21"));
    row("duplicates stay", "a: b\nc: d\na: e\n", "a=b @1:1 1:4\nc=d @2:1 2:4\na=e @3:1 3:4");
    row("no texts", "a: 3\nb: null\nc: [x, 1]\nd: {e: f}\ng: yes\nh: 1e3\ni: ~\nj:\nk: .5\nl: 2024-01-01\nm: !!int 7\n",
        "a=!3 @1:1 1:4\nb=!null @2:1 2:4\nc=![x, 1] @3:1 3:4\nd=!{e: f} @4:1 4:4\ng=!yes @5:1 5:4\nh=!1e3 @6:1 6:4\n"
        "i=!null @7:1 7:4\nj=!null @8:1 8:3\nk=!.5 @9:1 9:4\nl=!2024-01-01 @10:1 10:4\nm=!7 @11:1 11:10");
    row("texts that look otherwise", "a: '3'\nb: \"null\"\nc: !!str 5\nd: colwise \n'e': 'f g'\n\"h\\u00e9\": nullable\n",
        QString::fromUtf8("a=3 @1:1 1:4\nb=null @2:1 2:4\nc=5 @3:1 3:10\nd=colwise @4:1 4:4\ne=f g @5:1 5:6\n"
                          "h\xC3\xA9=nullable @6:1 6:12"));
    row("quotes keep blanks", "a: 'colwise '\n", "a=colwise  @1:1 1:4");
    row("keys that are no texts", "3: colwise\nnull: a\ntrue: b\n", "!3=colwise @1:1 1:4\n!null=a @2:1 2:7\n!true=b @3:1 3:7");
    row("anchor and alias", "a: &s colwise\nb: *s\n*s : c\n",
        "a=colwise @1:1 1:7\nb=colwise @2:1 2:4\ncolwise=c @3:1 3:6");
    row("merge key", "x-a: &m\n  k: v\n  z: w\ntp_plan:\n  <<: *m\n  z: own\n  q: r\n",
        "<k=v @2:3 2:6\nz=own @6:3 6:6\nq=r @7:3 7:6");
    row("list of merges, the first wins", "x-a: &a {k: 1st}\nx-b: &b {k: 2nd, l: m}\ntp_plan:\n  <<: [*a, *b]\n",
        "<k=1st @1:10 1:13\n<l=m @2:18 2:21");
    row("merge in a merge", "x-a: &a {k: v}\nx-b: &b {<<: *a, l: m}\ntp_plan: {<<: *b}\n",
        "<k=v @1:10 1:13\n<l=m @2:18 2:21");
    row("merge key in a bare mapping", "x-a: &a {k: v}\n<<: *a\nq: r\n", "<k=v @1:10 1:13\nq=r @3:1 3:4");
    row("quoted << is a key", "{\"<<\": \"a\"}", "<<=a @1:2 1:8");
    row("the plan is an alias", "x-p: &p\n  k: v\ntp_plan: *p\n", "k=v @2:3 2:6");
    row("empty values before a key named null", "a:\n  b:\nnull: x\n", "a=!{b: null} @1:1 2:3\n!null=x @3:1 3:7");
    row("explicit keys", "? a\n: b\n? c\n", "a=b @1:3 2:3\nc=!null @3:3 3:4");
    row("flow without values", "tp_plan: {a, b: , c: d,}\n", "a=!null @1:11 1:12\nb=!null @1:14 1:16\nc=d @1:19 1:22");
    row("block scalar", "a: |\n  colwise\nb: >-\n  row\n  wise\nc: d\n", "a=colwise\n @1:1 1:4\nb=row wise @3:1 3:4\nc=d @6:1 6:4");
    row("plain over two lines", "a: col\n  wise\nb: c\n", "a=col wise @1:1 1:4\nb=c @3:1 3:4");
    row("directive, document marks", "%YAML 1.2\n---\na: b\n...\n", "a=b @3:1 3:4");
    row("tab between", "a:\tb\t# c\n", "a=b @1:1 1:4");
}

void PlanDocumentTest::rules() {
    QFETCH(QByteArray, text);
    QFETCH(QString, expected);
    const auto document = parsePlan(text.toStdString(), "plan.yaml");
    QVERIFY2(document, document ? "" : document.error().text().c_str());
    QCOMPARE(shown(*document), expected);
    QCOMPARE(document->text, text.toStdString());
}

void PlanDocumentTest::spansCoverWhatIsWritten() {
    const std::string text = "\xEF\xBB\xBFtp_plan:\r\n  'a.b' : \"col\\\"wise\" # x\r\n  c: &s !!str  'it''s'\r\n  d: *s\r\n"
                             "  e: [1, [2, '}']] # y\r\n  f: {g: \"]\" , }\r\n  h: |  # z\r\n    text\r\n\r\n  i: ~\r\n";
    const auto document = parsePlan(text, "plan.yaml");
    QVERIFY2(document, document ? "" : document.error().text().c_str());
    QStringList pieces;
    for (const PlanRule &rule : document->rules)
        pieces << QString::fromStdString(piece(*document, rule.keySpan)) + "->" +
                      QString::fromStdString(piece(*document, rule.styleSpan));
    const QStringList expected{"'a.b'->\"col\\\"wise\"", "c->'it''s'",          "d->*s",
                               "e->[1, [2, '}']]",       "f->{g: \"]\" , }", "h->|  # z\r\n    text", "i->~"};
    QCOMPARE(pieces, expected);
}

void PlanDocumentTest::fields() {
    const auto document = parsePlan("model_type: qwen3\ntp_size: 4\nbase: none\ntp_plan: {}\nep_plan:\n  a: grouped_gemm\n"
                                    "fsdp_size: 2\nx-note: {a: b}\n", "plan.yaml");
    QVERIFY2(document, document ? "" : document.error().text().c_str());
    QCOMPARE(*document->modelType, std::string("qwen3"));
    QCOMPARE(*document->tpSize, 4);
    QVERIFY(!document->baseBuiltin && document->hasTpPlan && document->tpPlanIsMapping && !document->bareMapping);
    QCOMPARE(document->epRules.size(), std::size_t(1));
    const auto nulls = parsePlan("{\"tp_plan\": null, \"tp_size\": null, \"ep_plan\": null, \"base\": null}", "plan.json");
    QVERIFY(nulls && !nulls->tpSize && !nulls->hasTpPlan && nulls->tpPlanIsMapping && nulls->baseBuiltin);
}

void PlanDocumentTest::forms() {
    QVERIFY(parsePlan("{}", "p")->hasTpPlan);
    QVERIFY(parsePlan("{}", "p")->bareMapping);
    QVERIFY(parsePlan("tp_plan: auto", "p")->tpPlanIsMapping);
    for (const char *text : {"tp_plan: colwise", "tp_plan: 3", "tp_plan: [a]"})
        QVERIFY2(!parsePlan(text, "p")->tpPlanIsMapping && !parsePlan(text, "p")->hasTpPlan, text);
}

void PlanDocumentTest::refused_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<int>("line");
    QTest::addColumn<int>("column");
    QTest::addColumn<QString>("says");
    const auto row = [](const char *name, const QByteArray &text, int line, int column, const char *says) {
        QTest::newRow(name) << text << line << column << says;
    };
    row("empty", "", 1, 1, "empty");
    row("comments only", "# nothing\n", 1, 1, "empty");
    row("document mark only", "---\n", 2, 1, "empty");
    row("a list", "- a\n- b\n", 1, 1, "found a list");
    row("a text", "\n  colwise\n", 2, 3, "found \"colwise\"");
    row("syntax", "tp_plan:\n  a: [b\n", 3, 1, "not valid YAML");
    row("two values", "a: b: c\n", 1, 5, "not valid YAML");
    row("no colon", "tp_plan:\n  a: b\n  model.norm\n", 3, 3, "no \":\"");
    row("tab", "tp_plan:\n\ta: colwise\n", 2, 3, "tabs");
    row("unknown anchor", "a: *b\n", 1, 4, "anchor");
    row("invalid UTF-8", "a: b\n\xC3\xA9: \xFF\n", 2, 4, "0xFF is not UTF-8");
    row("overlong UTF-8", "a: \xC0\xAF\n", 1, 4, "not UTF-8");
    row("surrogate", "a: \xED\xA0\x80\n", 1, 4, "not UTF-8");
    row("cut UTF-8", "a: \xE2\x82", 1, 4, "not UTF-8");
    row("UTF-16", QByteArray("\xFF\xFE" "a\0:\0", 6), 1, 1, "not UTF-8");
    row("NUL", QByteArray("a: b\0c\n", 7), 1, 5, "control character 0x00");
    row("escape", "a: b\n\x1B: c\n", 2, 1, "control character 0x1B");
    row("second document", "a: b\n---\nc: d\n", 3, 1, "second YAML document");
    row("unknown key", "tp_plan: {}\ntp_sise: 2\n", 2, 1, "did you mean tp_size");
    row("unknown key far off", "tp_plan: {}\nmodel.norm: replicate\n", 2, 1, "below tp_plan");
    row("misspelt tp_plan", "tpplan:\n  a: b\n", 1, 1, "did you mean tp_plan");
    row("catalogue file", "model_type: llama\nbase_model_tp_plan: {a: b}\n", 2, 1, "unknown key");
    row("repeated key", "tp_plan: {a: b}\ntp_plan: {c: d}\n", 2, 1, "line 1");
    row("size 0", "tp_size: 0\n", 1, 10, "from 1");
    row("negative size", "tp_size: -2\n", 1, 10, "from 1");
    row("size of text", "tp_size: \"2\"\n", 1, 10, "from 1");
    row("broken size", "tp_size: 2.5\n", 1, 10, "from 1");
    row("huge size", "tp_size: 99999999999\n", 1, 10, "from 1");
    row("list of sizes", "tp_size: [2]\n", 1, 10, "found a list");
    row("base", "base: bultin\ntp_plan: {}\n", 1, 7, "builtin or none");
    row("model type", "model_type: 3\ntp_plan: {}\n", 1, 13, "expected a text");
    row("ep_plan", "ep_plan: auto\n", 1, 10, "expected a mapping");
    row("merge of a text", "tp_plan:\n  <<: colwise\n", 2, 7, "needs a mapping");
    row("merge of itself", "tp_plan: &a\n  <<: *a\n", 2, 7, "stands in");
}

void PlanDocumentTest::refused() {
    QFETCH(QByteArray, text);
    QFETCH(int, line);
    QFETCH(int, column);
    QFETCH(QString, says);
    const auto document = parsePlan(text.toStdString(), "plan.yaml");
    QVERIFY(!document);
    const QString error = QString::fromStdString(document.error().text());
    QCOMPARE(document.error().code, ErrorCode::BadInput);
    QVERIFY2(error.contains(says), qPrintable(error));
    QVERIFY2(error.startsWith(QString("plan.yaml:%1:%2: ").arg(line).arg(column)), qPrintable(error));
    QVERIFY2(!error.contains('\n'), qPrintable(error));
}

void PlanDocumentTest::filesThatAreNone() {
    QTemporaryDir folder;
    const auto directory = loadPlan(folder.path().toStdString());
    QVERIFY(!directory && directory.error().code == ErrorCode::BadInput);
    const auto missing = loadPlan(folder.filePath("none.yaml").toStdString());
    QVERIFY(!missing && missing.error().code == ErrorCode::NotFound);
    const std::string path = folder.filePath("plan.yaml").toStdString();
    QVERIFY(writeFileAtomically(path, "a: b\n"));
    const auto document = loadPlan(path);
    QVERIFY(document && document->fileName == path);
}

void PlanDocumentTest::sizeAndDepth() {
    std::string text = "tp_plan:\n";
    std::size_t count = 0;
    for (; text.size() < 10'000'000; ++count)
        text += "  model.layers.*.mlp.up_proj" + std::to_string(count) + ": colwise # rule\n";
    const auto block = parsePlan(text, "plan.yaml");
    QVERIFY(block && block->rules.size() == count);
    QCOMPARE(block->rules.back().keySpan.line, static_cast<int>(count) + 1);
    // One line of 10 MB: columns must not be counted from its start for each rule.
    text = "{";
    for (std::size_t i = 0; text.size() < 10'000'000; ++i)
        text += (i == 0 ? "\"k" : ", \"k") + std::to_string(i) + "\": \"colwise\"";
    const auto flow = parsePlan(text + "}", "plan.json");
    QVERIFY(flow && !flow->rules.empty());
    QCOMPARE(piece(*flow, flow->rules.back().styleSpan), std::string("\"colwise\""));
    std::string steps; // 4 MB; 10,000 steps would be 50
    for (int depth = 0; depth < 3'000; ++depth)
        steps += std::string(static_cast<std::size_t>(depth), ' ') + "a:\n";
    std::string maps;
    for (int depth = 0; depth < 10'000; ++depth)
        maps += "{a: ";
    for (const std::string &deep : {std::string(10'000, '['), maps, steps}) {
        const auto document = parsePlan(deep, "plan.yaml");
        QVERIFY(!document);
        QVERIFY2(QString::fromStdString(document.error().message).contains("nested too deeply"),
                 document.error().text().c_str());
    }
}

void PlanDocumentTest::mergesWithoutEnd() {
    std::string text = "x-0: &a0 {k: v}\n";
    for (int i = 1; i < 200; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        text += "x-" + std::to_string(i) + ": &a" + std::to_string(i) + " {<<: [" + before + ", " + before + ", " + before +
                "], k" + std::to_string(i) + ": v}\n";
    }
    const auto chain = parsePlan(text + "tp_plan: {<<: *a199}\n", "plan.yaml");
    QVERIFY(chain && chain->rules.size() == 200);
    for (int i = 200; i < 3000; ++i)
        text += "x-" + std::to_string(i) + ": &a" + std::to_string(i) + " {<<: *a" + std::to_string(i - 1) + ", k" +
                std::to_string(i) + ": v}\n";
    const auto bomb = parsePlan(text + "tp_plan: {<<: *a2999}\n", "plan.yaml");
    QVERIFY(!bomb && bomb.error().message.find("million") != std::string::npos);
}

QTEST_APPLESS_MAIN(PlanDocumentTest)
#include "plandocumenttest.moc"
