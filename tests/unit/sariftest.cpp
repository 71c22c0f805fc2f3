// SPDX-License-Identifier: GPL-3.0-or-later
// The SARIF log of lint's findings: what the standard requires is there, and places mean the same text whether they are
// read as bytes or as lines and columns.
#include "report/sarif.h"

#include <QtTest>
#include <algorithm>

#include "../support/recordedmodels.h"
#include "lint/codes.h"

using namespace tpscope;
using nlohmann::json;

namespace {

// Offset of a line and column, counted from the standard's words alone: lines end with LF, CRLF or CR, columns count
// code points from 1, a byte-order mark is none.
std::size_t offsetOf(const std::string &text, int line, int column) {
    std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    while (--line > 0) {
        at = text.find_first_of("\r\n", at);
        if (at == std::string::npos)
            return at;
        at += text.compare(at, 2, "\r\n") == 0 ? 2 : 1;
    }
    for (; column > 1; --column)
        do
            ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
}

bool placedRight(const json &region, const std::string &text) {
    const std::size_t begin = region.at("byteOffset"), length = region.at("byteLength");
    return offsetOf(text, region.at("startLine"), region.at("startColumn")) == begin &&
           offsetOf(text, region.at("endLine"), region.at("endColumn")) == begin + length &&
           begin + length <= text.size();
}

struct Subject {
    PlanDocument document;
    LintReport report;
    json log;
};

Subject lintOf(const std::string &text, const std::string &file = "plan.yaml", const char *model = "llama") {
    const auto loaded = recorded::load(model);
    Subject out;
    auto document = parsePlan(text, file);
    if (!document)
        throw std::runtime_error(document.error().text());
    out.document = std::move(*document);
    out.report = recorded::lintText(*loaded, text, 2);
    out.log = toSarif({{&out.report, &out.document, model, 2}}, "1.2.3", "/work/dir");
    return out;
}

const std::string troubles = "# \xC3\xBC \xF0\x9F\x98\x80\n"
                             "tp_plan: {\"model.norm\": \"r\xC3\xA9plicate\", lm_head: Colwise, # \xE2\x82\xAC\n"
                             "  model.layers.*.mlp.up_proj: \xF0\x9F\x98\x80, model.embed_tokens: Replicate}\n";
const std::string mends = "# \xC3\xBC\n"
                          "tp_plan:\n"
                          "  model.layers.*.mlp.gate_proj: replicate # \xE2\x82\xAC\n"
                          "  \"lm_head\": 'colwise'\n";

std::string with(std::string text, const std::string &lineEnd, bool mark) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += lineEnd.size())
        text.replace(at, 1, lineEnd);
    return (mark ? "\xEF\xBB\xBF" : "") + text;
}

} // namespace

class SarifTest : public QObject {
    Q_OBJECT
private slots:
    void hasWhatTheStandardRequires() {
        const json log = lintOf(mends).log;
        QCOMPARE(log.at("version").get<std::string>(), std::string("2.1.0"));
        QCOMPARE(log.at("runs").size(), std::size_t{1});
        const json &run = log["runs"][0];
        const json &driver = run.at("tool").at("driver");
        QCOMPARE(driver.at("name").get<std::string>(), std::string("TPScope"));
        QCOMPARE(driver.at("version").get<std::string>(), std::string("1.2.3"));
        QCOMPARE(run.at("columnKind").get<std::string>(), std::string("unicodeCodePoints"));
        QVERIFY(run.at("results").size() >= 2);
        for (const json &result : run["results"]) {
            const json &rule = driver.at("rules").at(result.at("ruleIndex").get<std::size_t>());
            QCOMPARE(rule.at("id"), result.at("ruleId"));
            QVERIFY(findCode(rule["id"].get<std::string>()));
            QVERIFY(!rule.at("shortDescription").at("text").get<std::string>().empty());
            QVERIFY(!rule.at("help").at("text").get<std::string>().empty());
            const std::string page = rule.at("help").at("markdown");
            QVERIFY2(page.starts_with("# " + rule["id"].get<std::string>()), page.c_str());
            const std::string level = result.at("level");
            QVERIFY(level == "error" || level == "warning" || level == "note");
            QVERIFY(!result.at("message").at("text").get<std::string>().empty());
            const json &artifact = result.at("locations").at(0).at("physicalLocation").at("artifactLocation");
            QCOMPARE(artifact.at("uri").get<std::string>(), std::string("plan.yaml"));
            QCOMPARE(run.at("artifacts").at(artifact.at("index").get<std::size_t>()).at("location").at("uri"),
                     artifact.at("uri"));
        }
    }

    void everyFindingIsThereOnce() {
        const Subject subject = lintOf(troubles);
        const json &results = subject.log["runs"][0]["results"];
        QCOMPARE(results.size(), subject.report.diagnostics.size());
        for (std::size_t i = 0; i < results.size(); ++i)
            QCOMPARE(results[i]["ruleId"].get<std::string>(), subject.report.diagnostics[i].code);
    }

    void placesMeanTheSameText_data() {
        QTest::addColumn<QByteArray>("text");
        for (const auto &[what, text] : {std::pair("block", mends), std::pair("flow", troubles)})
            for (const char *lineEnd : {"\n", "\r\n", "\r"})
                for (const bool mark : {false, true})
                    QTest::addRow("%s %s%s", what, lineEnd[0] == '\n' ? "LF" : lineEnd[1] ? "CRLF" : "CR",
                                  mark ? " BOM" : "")
                        << QByteArray::fromStdString(with(text, lineEnd, mark));
    }

    void placesMeanTheSameText() {
        QFETCH(QByteArray, text);
        const Subject subject = lintOf(text.toStdString());
        const std::string &bytes = subject.document.text;
        QCOMPARE(bytes, text.toStdString());
        int regions = 0, replacements = 0;
        for (std::size_t i = 0; i < subject.report.diagnostics.size(); ++i) {
            const Diagnostic &finding = subject.report.diagnostics[i];
            const json &result = subject.log["runs"][0]["results"][i];
            const json &place = result["locations"][0]["physicalLocation"];
            QCOMPARE(place.contains("region"), finding.span.valid());
            if (finding.span.valid()) {
                const json &region = place["region"];
                ++regions;
                QVERIFY2(placedRight(region, bytes), region.dump().c_str());
                QCOMPARE(region["startLine"].get<int>(), finding.span.line);
                QCOMPARE(region["startColumn"].get<int>(), finding.span.column);
            }
            const bool edits = finding.fix && !finding.fix->edits.empty();
            QCOMPARE(result.contains("fixes"), edits);
            if (!edits)
                continue;
            const json &change = result["fixes"].at(0).at("artifactChanges").at(0);
            QCOMPARE(change.at("replacements").size(), finding.fix->edits.size());
            for (std::size_t e = 0; e < finding.fix->edits.size(); ++e) {
                const json &replacement = change["replacements"][e];
                ++replacements;
                QVERIFY2(placedRight(replacement.at("deletedRegion"), bytes), replacement.dump().c_str());
                QCOMPARE(replacement["deletedRegion"]["byteOffset"].get<std::size_t>(), finding.fix->edits[e].offset);
                QCOMPARE(replacement.at("insertedContent").at("text").get<std::string>(), finding.fix->edits[e].text);
            }
        }
        QVERIFY(regions >= 2 && replacements >= 2);
    }

    // Section 3.11.5: single braces would be placeholders.
    void bracesOfMessagesAreDoubled() {
        const Subject subject = lintOf("tp_plan: {}\n");
        QVERIFY(subject.report.diagnostics.at(0).message.find("{}") != std::string::npos);
        const std::string text = subject.log["runs"][0]["results"][0]["message"]["text"];
        QVERIFY2(text.find("{{}}") != std::string::npos, text.c_str());
    }

    void urisAreRelativeToTheWorkingDirectory_data() {
        QTest::addColumn<QString>("file");
        QTest::addColumn<QString>("uri");
        QTest::newRow("below") << "plans/a.yaml" << "plans/a.yaml";
        QTest::newRow("dots") << "./plans/../a.yaml" << "a.yaml";
        QTest::newRow("absolute, below") << "/work/dir/p/a.yaml" << "p/a.yaml";
        QTest::newRow("elsewhere") << "../a b.yaml" << "file:///work/a%20b.yaml";
        QTest::newRow("other characters") << QString::fromUtf8("\xC3\xA9:#%.yaml") << "%C3%A9%3A%23%25.yaml";
    }

    void urisAreRelativeToTheWorkingDirectory() {
        QFETCH(QString, file);
        QFETCH(QString, uri);
        const json log = lintOf(mends, file.toStdString()).log;
        QCOMPARE(log["runs"][0]["artifacts"][0]["location"]["uri"].get<std::string>(), uri.toStdString());
    }

    // auto and none: nothing to point at, and no invented file.
    void withoutAFileThereIsNoPlace() {
        const auto subject = recorded::load("gpt_oss");
        const LintReport report = lint(subject->model, {}, &subject->builtin, 2);
        const json log = toSarif({{&report, nullptr, "gpt_oss", 2}}, "1.2.3", "/work/dir");
        QVERIFY(!report.diagnostics.empty() && log["runs"][0]["artifacts"].empty());
        for (const json &result : log["runs"][0]["results"])
            for (const json &location : result.value("locations", json::array()))
                QVERIFY(!location.contains("physicalLocation"));
        QVERIFY(log["runs"][0]["properties"]["plans"][0]["plan"].is_null());
    }

    void severalPlansShareOneRun() {
        const Subject a = lintOf(mends, "a.yaml"), b = lintOf(troubles, "b.yaml");
        const json log =
            toSarif({{&a.report, &a.document, "llama", 2}, {&b.report, &b.document, "llama", 2}}, "1.2.3", "/work/dir");
        const json &run = log["runs"][0];
        QCOMPARE(run["results"].size(), a.report.diagnostics.size() + b.report.diagnostics.size());
        QCOMPARE(run["artifacts"].size(), std::size_t{2});
        const json twice =
            toSarif({{&a.report, &a.document, "llama", 2}, {&a.report, &a.document, "llama", 4}}, "1.2.3", "/work/dir");
        QCOMPARE(twice["runs"][0]["artifacts"].size(), std::size_t{1});
        const json &last = run["results"].back()["locations"][0]["physicalLocation"]["artifactLocation"];
        QCOMPARE(last["uri"].get<std::string>(), std::string("b.yaml"));
        std::vector<std::string> ids;
        for (const json &rule : run["tool"]["driver"]["rules"])
            ids.push_back(rule["id"]);
        QVERIFY(std::ranges::adjacent_find(ids, std::greater_equal()) == ids.end());
    }
};

QTEST_GUILESS_MAIN(SarifTest)
#include "sariftest.moc"
