// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/comparisonfacts.h"

#include <QTest>
#include <nlohmann/json.hpp>

#include "report/comparisonhtml.h"
#include "report/comparisonmarkdown.h"
#include "report/comparisontext.h"

using namespace tpscope;

namespace {

GraphNumbers graphs(Source source, int breaks) {
    GraphNumbers numbers;
    numbers.source = source;
    numbers.graphBreaks = breaks;
    numbers.prefillGraphs = breaks + 1;
    numbers.decodeSequence = std::vector<int>(static_cast<std::size_t>(breaks) + 1, 0);
    if (breaks)
        numbers.reasons = {"q_norm: Module-level backwards hooks require compiled autograd."};
    return numbers;
}

RunTrace trace(double ms, int breaks) {
    RunTrace trace;
    trace.backend = Backend::Transformers;
    trace.source = Source::Measured;
    trace.tp = 2;
    trace.hooks = breaks ? HookMode::ModuleBackward : HookMode::PostAccumulateGrad;
    for (int i = 0; i < 30; ++i)
        trace.tokenMs.push_back(ms + 0.01 * ((i * 7) % 11));
    trace.outputIds = {{1, 2, 3}};
    trace.graphs = graphs(Source::Measured, breaks);
    trace.predictedGraphs = graphs(Source::Predicted, breaks);
    trace.statements = {"both sides say this"};
    trace.environment = currentEnvironment();
    return trace;
}

Comparison comparison() { return compare(trace(50, 11), trace(40, 0)); }

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

} // namespace

class ComparisonReportTest : public QObject {
    Q_OBJECT
private slots:
    void resultComesFirstWithItsSources() {
        const ComparisonFacts facts = comparisonFacts(comparison());
        QVERIFY2(has(facts.result, "graph breaks 11 -> 0 (measured, as predicted)"), facts.result.c_str());
        QVERIFY2(has(facts.result, "faster"), facts.result.c_str());
    }

    void aWrongPredictionIsNotHidden() {
        Comparison wrong = comparison();
        wrong.before.predictedGraphs->graphBreaks = 5;
        const std::string text = comparisonText(wrong);
        QVERIFY(!has(text, "as predicted"));
        QVERIFY2(has(text, "predicted"), text.c_str());
    }

    void whatBothSaySaysItOnce() {
        const std::string text = comparisonText(comparison());
        QVERIFY2(has(text, "both: both sides say this"), text.c_str());
        QCOMPARE(text.find("both sides say this"), text.rfind("both sides say this"));
    }

    void causesAreNamed() {
        for (const std::string &text : {comparisonText(comparison()), comparisonMarkdown(comparison()),
                                        comparisonHtml(comparison())})
            QVERIFY(has(text, "require compiled autograd"));
    }

    void layersOfOneKindAreOneRow() {
        Comparison folded = comparison();
        folded.perModule = {{"model.layers.0.mlp", 1.0, 0.5}, {"model.layers.11.mlp", 2.0, 0.5}, {"lm_head", 1.0, 1.0}};
        const ComparisonFacts facts = comparisonFacts(folded);
        const auto &rows = facts.details.back().rows;
        QCOMPARE(rows.size(), std::size_t{2});
        QCOMPARE(rows[0][0], std::string("model.layers.*.mlp x 2"));
        QCOMPARE(rows[0][1], std::string("3.00 ms"));
    }

    // A recording is somebody else's file: it must not write to the terminal or the page what it likes.
    void aRecordingCannotEscape() {
        nlohmann::json json = toJson(comparison());
        json["before"]["statements"] = {"\x1b[2J\xc2\x9b" "2J<script>alert(1)</script>\n# heading"};
        json["before"]["environment"]["machine"] = "\x1b]0;title\x07";
        const auto read = comparisonFromJson(json, "c.json");
        QVERIFY2(read.has_value(), read ? "" : read.error().text().c_str());
        for (const std::string &text : {comparisonText(*read), comparisonMarkdown(*read), comparisonHtml(*read)}) {
            QVERIFY(!has(text, "\x1b"));
            QVERIFY(!has(text, "\xc2\x9b"));
            QVERIFY(!has(text, "\x07"));
            QVERIFY(!has(text, "\n# heading"));
        }
        QVERIFY(!has(comparisonHtml(*read), "<script>alert"));
    }
};

QTEST_APPLESS_MAIN(ComparisonReportTest)
#include "comparisonreporttest.moc"
