// SPDX-License-Identifier: GPL-3.0-or-later
#include <QtTest>

#include "plan/plandocument.h"

using namespace tpscope;

// Each row is a text, an edit and the text it must become: everything else stays byte for byte.
class PlanEditsTest : public QObject {
    Q_OBJECT

private slots:
    void setStyle_data();
    void setStyle();
    void rename_data();
    void rename();
    void add_data();
    void add();
    void applyIsClamped();

private:
    static PlanDocument parsed(const QByteArray &text);
};

PlanDocument PlanEditsTest::parsed(const QByteArray &text) {
    const auto document = parsePlan(text.toStdString(), "plan.yaml");
    if (!document)
        qFatal("%s in: %s", document.error().text().c_str(), text.constData());
    return *document;
}

void PlanEditsTest::setStyle_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<int>("rule");
    QTest::addColumn<QString>("style");
    QTest::addColumn<QByteArray>("after");
    const auto row = [](const char *name, const QByteArray &text, int rule, const char *style, const QByteArray &after) {
        QTest::newRow(name) << text << rule << QString::fromUtf8(style) << after;
    };
    row("plain", "tp_plan:\n  a:   colwise   # why\n  b: c\n", 0, "rowwise", "tp_plan:\n  a:   rowwise   # why\n  b: c\n");
    row("quotes stay", "a: 'colwise' \nb: \"c\"\n", 0, "it's", "a: 'it''s' \nb: \"c\"\n");
    row("double quotes stay", "a: \"colwise\"\n", 0, "row\"", "a: \"row\\\"\"\n");
    row("quoted where it must be", "a: b\n", 0, "x: y", "a: \"x: y\"\n");
    row("a number as text", "a: b\n", 0, "3", "a: \"3\"\n");
    row("windows line ends", "\xEF\xBB\xBF" "a: b\r\nc: d\r\n", 1, "e", "\xEF\xBB\xBF" "a: b\r\nc: e\r\n");
    row("flow", "tp_plan: {a: b, c: d}\n", 0, "e", "tp_plan: {a: e, c: d}\n");
    row("json", "{\"a\": \"b\",\n \"c\": 3}", 1, "d", "{\"a\": \"b\",\n \"c\": \"d\"}");
    row("null", "a: null # none\n", 0, "b", "a: b # none\n");
    row("nothing", "a: # none\nb: c\n", 0, "d", "a: d # none\nb: c\n");
    row("nothing at the end", "a:", 0, "d", "a: d");
    row("nothing in flow", "{a, b: , c: d}", 0, "e", "{a: e, b: , c: d}");
    row("nothing in flow with colon", "tp_plan: {a, b: , c: d}", 1, "e", "tp_plan: {a, b: e , c: d}");
    row("nothing behind an explicit key", "tp_plan:\n  ? a\n  ? b\n", 0, "c", "tp_plan:\n  ? a\n  : c\n  ? b\n");
    row("list", "a: [x, y] # no\nb: c\n", 0, "d", "a: d # no\nb: c\n");
    row("block list", "a: # no\n- x\n- y # gone\nb: c\n", 0, "d", "a: d # no # gone\nb: c\n");
    row("block scalar", "a: |\n  x\n\n  y\nb: c\n", 0, "d", "a: d\nb: c\n");
    row("alias", "a: &s x\nb: *s # same\n", 1, "y", "a: &s x\nb: y # same\n");
    row("anchor moves on", "a: &s x\nb: q\nc: *s\nd: *s\n", 0, "y", "a: y\nb: q\nc: &s x\nd: *s\n");
    row("anchor nobody needs", "a: &s x\n", 0, "y", "a: &s y\n");
    row("tag", "a: !!int 3\n", 0, "y", "a: y\n");
    row("merged", "x-m: &m\n  k: v\ntp_plan:\n  <<: *m\n  q: r\n", 0, "y",
        "x-m: &m\n  k: v\ntp_plan:\n  <<: *m\n  q: r\n  k: y\n");
    row("duplicate", "a: b\na: c\n", 1, "d", "a: b\na: d\n");
}

void PlanEditsTest::setStyle() {
    QFETCH(QByteArray, text);
    QFETCH(int, rule);
    QFETCH(QString, style);
    QFETCH(QByteArray, after);
    const PlanDocument document = parsed(text);
    const TextEdit edit = setStyleEdit(document, static_cast<std::size_t>(rule), style.toStdString());
    const std::string edited = applyEdit(document.text, edit);
    QCOMPARE(QByteArray::fromStdString(edited), after);
    const PlanDocument again = parsed(after);
    bool found = false;
    for (const PlanRule &other : again.rules)
        found = found || (other.key == document.rules[static_cast<std::size_t>(rule)].key && other.styleIsText &&
                          other.style == style.toStdString());
    QVERIFY(found);
}

void PlanEditsTest::rename_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<int>("rule");
    QTest::addColumn<QString>("key");
    QTest::addColumn<QByteArray>("after");
    const auto row = [](const char *name, const QByteArray &text, int rule, const char *key, const QByteArray &after) {
        QTest::newRow(name) << text << rule << QString::fromUtf8(key) << after;
    };
    row("plain", "a.*.b : c # x\n", 0, "model.a.*.b", "model.a.*.b : c # x\n");
    row("json", "{\"a\":\"b\"}", 0, "c", "{\"c\":\"b\"}");
    row("single quotes", "'a': b\n", 0, "c", "'c': b\n");
    row("leading star", "a: b\n", 0, "*.a", "\"*.a\": b\n");
    row("alias", "a: &s x\n*s : c\n", 1, "d", "a: &s x\nd : c\n");
    row("explicit", "? a\n: b\n", 0, "c", "? c\n: b\n");
    row("number", "3: b\n", 0, "c", "c: b\n");
}

void PlanEditsTest::rename() {
    QFETCH(QByteArray, text);
    QFETCH(int, rule);
    QFETCH(QString, key);
    QFETCH(QByteArray, after);
    const PlanDocument document = parsed(text);
    const TextEdit edit = renameKeyEdit(document, static_cast<std::size_t>(rule), key.toStdString());
    QCOMPARE(QByteArray::fromStdString(applyEdit(document.text, edit)), after);
    QCOMPARE(parsed(after).rules[static_cast<std::size_t>(rule)].key, key.toStdString());
}

void PlanEditsTest::add_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QByteArray>("after");
    const auto row = [](const char *name, const QByteArray &text, const QByteArray &after) {
        QTest::newRow(name) << text << after;
    };
    row("block", "tp_plan:\n    a: b # last\ntp_size: 2\n", "tp_plan:\n    a: b # last\n    k.*.l: s\ntp_size: 2\n");
    row("comment behind stays behind", "tp_plan:\n  a: b\n  # end\n", "tp_plan:\n  a: b\n  k.*.l: s\n  # end\n");
    row("no newline at the end", "tp_plan:\n  a: b", "tp_plan:\n  a: b\n  k.*.l: s");
    row("windows line ends", "tp_plan:\r\n  a: b\r\n", "tp_plan:\r\n  a: b\r\n  k.*.l: s\r\n");
    row("bare", "\xEF\xBB\xBF" "a: b\n", "\xEF\xBB\xBF" "a: b\nk.*.l: s\n");
    row("quotes as before", "tp_plan:\n  \"a\": 'b'\n", "tp_plan:\n  \"a\": 'b'\n  \"k.*.l\": 's'\n");
    row("flow", "tp_plan: {a: b} # x\n", "tp_plan: {a: b, k.*.l: s} # x\n");
    row("flow with comma at the end", "tp_plan: {a: b, }\n", "tp_plan: {a: b, k.*.l: s, }\n");
    row("empty flow", "tp_plan: {} # x\n", "tp_plan: {k.*.l: s} # x\n");
    row("empty bare json", "{}", "{\"k.*.l\": \"s\"}");
    row("json on lines", "{\n  \"tp_plan\": {\n    \"a\": \"b\"\n  },\n  \"tp_size\": 2\n}\n",
        "{\n  \"tp_plan\": {\n    \"a\": \"b\",\n    \"k.*.l\": \"s\"\n  },\n  \"tp_size\": 2\n}\n");
    row("json, null style", "{\"tp_plan\": {\"a\": null}}", "{\"tp_plan\": {\"a\": null, \"k.*.l\": \"s\"}}");
    row("json without plan", "{\"tp_size\": 2}", "{\"tp_size\": 2, \"tp_plan\": {\"k.*.l\": \"s\"}}");
    row("json with null", "{\"tp_plan\": null}", "{\"tp_plan\": {\"k.*.l\": \"s\"}}");
    row("json with auto", "{\"tp_plan\": \"auto\"}", "{\"tp_plan\": {\"k.*.l\": \"s\"}}");
    row("no plan yet", "tp_size: 2 # two\n", "tp_size: 2 # two\ntp_plan:\n  k.*.l: s\n");
    row("plan of nothing", "tp_plan: # rules\ntp_size: 2\n", "tp_plan: # rules\n  k.*.l: s\ntp_size: 2\n");
    row("auto", "tp_plan: auto # built in\ntp_size: 2\n", "tp_plan: # built in\n  k.*.l: s\ntp_size: 2\n");
    row("last value empty", "tp_plan:\n  a:\nbase: none\n", "tp_plan:\n  a:\n  k.*.l: s\nbase: none\n");
    row("last value on lines", "tp_plan:\n  a: |\n    x\n\n    y\n\nbase: none\n",
        "tp_plan:\n  a: |\n    x\n\n    y\n  k.*.l: s\n\nbase: none\n");
    row("only a merge", "x-m: &m {a: b}\ntp_plan:\n  <<: *m\n", "x-m: &m {a: b}\ntp_plan:\n  <<: *m\n  k.*.l: s\n");
    row("document marks", "---\na: b\n...\n", "---\na: b\nk.*.l: s\n...\n");
}

void PlanEditsTest::add() {
    QFETCH(QByteArray, text);
    QFETCH(QByteArray, after);
    const PlanDocument document = parsed(text);
    const std::string edited = applyEdit(document.text, addRuleEdit(document, "k.*.l", "s"));
    QCOMPARE(QByteArray::fromStdString(edited), after);
    const PlanDocument again = parsed(after);
    QCOMPARE(again.rules.size(), document.rules.size() + 1);
    QCOMPARE(again.rules.back().key, std::string("k.*.l"));
    QCOMPARE(again.rules.back().style, std::string("s"));
}

void PlanEditsTest::applyIsClamped() {
    QCOMPARE(applyEdit("abc", {1, 1, "xy"}), std::string("axyc"));
    QCOMPARE(applyEdit("abc", {9, 9, "d"}), std::string("abcd"));
    // A rule that is not there, a text that is no plan: no edit.
    PlanDocument document = parsed("a: b\n");
    QCOMPARE(setStyleEdit(document, 7, "c"), TextEdit());
    document.text = "a: [";
    QCOMPARE(setStyleEdit(document, 0, "c"), TextEdit());
    QCOMPARE(addRuleEdit(document, "c", "d"), TextEdit());
}

QTEST_APPLESS_MAIN(PlanEditsTest)
#include "planeditstest.moc"
