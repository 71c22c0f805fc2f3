// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QtTest>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/resources.h"
#include "plan/parallelstyle.h"

using namespace tpscope;

class ParallelStyleTest : public QObject {
    Q_OBJECT

private slots:
    void namesAndOrderAreThoseUpstreamPrints();
    void aliasesAreTheSameRow();
    void namesAreExact();
    void nearest_data();
    void nearest();
    void wrappersThatCutNeedWhatTheyCut();
    void schemaListsTheTable();
};

namespace {

// The list in the recorded "Supported styles are [...]" message of transformers 5.24.
QStringList recordedStyles() {
    std::ifstream in(TPSCOPE_TEST_DATA "/fixtures/plan_errors.json");
    const auto recorded = nlohmann::json::parse(in);
    for (const auto &c : recorded.at("cases")) {
        if (!c.contains("load_error"))
            continue;
        const auto message = QString::fromStdString(c["load_error"].value("message", ""));
        const int start = message.indexOf("Supported styles are [");
        if (start < 0)
            continue;
        QStringList names;
        static const QRegularExpression inQuotes("'([a-z_]+)'");
        for (auto it = inQuotes.globalMatch(message, start); it.hasNext();)
            names << it.next().captured(1);
        return names;
    }
    return {};
}

} // namespace

void ParallelStyleTest::namesAndOrderAreThoseUpstreamPrints() {
    QStringList names;
    for (const ParallelStyle &style : parallelStyles())
        names << QString::fromUtf8(style.name.data(), static_cast<int>(style.name.size()));
    const QStringList recorded = recordedStyles();
    QVERIFY(!recorded.isEmpty());
    QCOMPARE(names, recorded);
}

void ParallelStyleTest::aliasesAreTheSameRow() {
    int aliases = 0;
    for (const ParallelStyle &style : parallelStyles()) {
        const ParallelStyle *canonical = findStyle(style.canonical);
        QVERIFY(canonical);
        QCOMPARE(canonical->canonical, canonical->name);
        QVERIFY(!style.summary.empty());
        if (canonical == &style)
            continue;
        ++aliases;
        QCOMPARE(style.weightAxis, canonical->weightAxis);
        QCOMPARE(style.groups, canonical->groups);
        QCOMPARE(style.oneDim, canonical->oneDim);
        QCOMPARE(style.localTensors, canonical->localTensors);
        QCOMPARE(style.input, canonical->input);
        QCOMPARE(style.output, canonical->output);
        QCOMPARE(style.sumsInputGradient, canonical->sumsInputGradient);
        QCOMPARE(style.sync, canonical->sync);
        QCOMPARE(style.requires_, canonical->requires_);
        QCOMPARE(style.takesInput, canonical->takesInput);
        QCOMPARE(style.takesOutput, canonical->takesOutput);
    }
    QCOMPARE(aliases, 2);
}

void ParallelStyleTest::namesAreExact() {
    QVERIFY(findStyle("colwise"));
    for (const char *name : {"Colwise", "colwise ", " colwise", "", "col", "columnwise"})
        QVERIFY2(!findStyle(name), name);
}

void ParallelStyleTest::nearest_data() {
    QTest::addColumn<QString>("written");
    QTest::addColumn<QString>("meant");
    QTest::newRow("case") << "Colwise" << "colwise";
    QTest::newRow("blank") << "colwise " << "colwise";
    QTest::newRow("long form") << "columnwise" << "colwise";
    QTest::newRow("typo") << "rowwsie" << "rowwise";
    QTest::newRow("typo in a long name") << "replicated_with_grad_alreduce" << "replicated_with_grad_allreduce";
    QTest::newRow("nothing near") << "xyzzyxyzzyxyzzy" << "";
}

void ParallelStyleTest::nearest() {
    QFETCH(QString, written);
    QFETCH(QString, meant);
    QCOMPARE(std::string(nearestStyle(written.toStdString())), meant.toStdString());
}

// What a row says must hang together: a style that gathers or reduces reads the output, one that cuts the input reads
// the input, only the synced styles hook parameters.
void ParallelStyleTest::wrappersThatCutNeedWhatTheyCut() {
    for (const ParallelStyle &style : parallelStyles()) {
        if (style.output != ParallelStyle::Output::None)
            QVERIFY2(style.takesOutput, style.name.data());
        if (style.input != ParallelStyle::Input::None || style.sumsInputGradient)
            QVERIFY2(style.takesInput, style.name.data());
        if (style.groups > 1)
            QVERIFY2(style.weightAxis != ParallelStyle::WeightAxis::None, style.name.data());
        QCOMPARE(style.hooksParameters(), style.sync == ParallelStyle::Sync::Sum);
    }
    QVERIFY(findStyle("replicated_with_grad_allreduce")->hooksParameters());
    QVERIFY(!findStyle("replicate")->hooksParameters());
}

// Editors complete and check plan files by the schema: it must know the same styles.
void ParallelStyleTest::schemaListsTheTable() {
    const auto text = readFile(resourceDir() / "plan.schema.json");
    QVERIFY(text);
    const auto schema = nlohmann::json::parse(*text);
    const auto &listed = schema.at("$defs").at("style").at("oneOf");
    QCOMPARE(listed.size(), parallelStyles().size());
    for (std::size_t i = 0; i < listed.size(); ++i) {
        QCOMPARE(listed[i].at("const").get<std::string>(), std::string(parallelStyles()[i].name));
        QCOMPARE(listed[i].at("description").get<std::string>(), std::string(parallelStyles()[i].summary));
    }
}

QTEST_APPLESS_MAIN(ParallelStyleTest)
#include "parallelstyletest.moc"
