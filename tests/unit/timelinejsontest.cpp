// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/timelinejson.h"

#include <QTest>
#include <nlohmann/json.hpp>

using namespace tpscope;

namespace {

RunTrace traceOf(std::size_t events) {
    RunTrace trace;
    trace.environment.date = "2026-01-01T00:00:00Z";
    trace.model = "qwen3-tiny";
    trace.plan = "mine.yaml";
    trace.planText = "tp_plan:\n  lm_head: colwise\n";
    trace.moduleNames = {"lm_head"};
    trace.opNames = {"linear", "all_gather"};
    for (int rank = 0; rank < 2; ++rank) {
        RankTrace track{rank, {}};
        for (std::size_t i = 0; i < events; ++i) {
            Event event;
            event.start = static_cast<std::int64_t>(i) * 100 + rank;
            event.duration = 50;
            event.kind = i % 2 ? EventKind::Collective : EventKind::Compute;
            event.token = static_cast<std::int32_t>(i / 10) - 1;
            event.module = 0;
            event.op = static_cast<std::int32_t>(i % 2);
            event.bytes = i % 2 ? 512 : 0;
            track.events.push_back(event);
        }
        trace.ranks.push_back(std::move(track));
    }
    return trace;
}

} // namespace

class TimelineJsonTest : public QObject {
    Q_OBJECT

private slots:
    void aTraceComesBackWithItsEventsAndWhatWasRun() {
        const RunTrace trace = traceOf(30);
        const auto read = runTraceFromJson(toJson(trace), "test");
        QVERIFY2(read, read ? "" : read.error().text().c_str());
        QCOMPARE(read->model, trace.model);
        QCOMPARE(read->plan, trace.plan);
        QCOMPARE(read->planText, trace.planText);
        QCOMPARE(read->moduleNames, trace.moduleNames);
        QCOMPARE(read->opNames, trace.opNames);
        QCOMPARE(read->ranks.size(), std::size_t(2));
        for (std::size_t rank = 0; rank < 2; ++rank) {
            QCOMPARE(read->ranks[rank].rank, static_cast<int>(rank));
            QCOMPARE(read->ranks[rank].events.size(), std::size_t(30));
            for (std::size_t i = 0; i < 30; ++i) {
                const Event &a = trace.ranks[rank].events[i], &b = read->ranks[rank].events[i];
                QVERIFY(a.start == b.start && a.duration == b.duration && a.kind == b.kind && a.token == b.token &&
                        a.layer == b.layer && a.module == b.module && a.op == b.op && a.bytes == b.bytes);
            }
        }
    }

    void aTraceWithoutEventsHasNoTimeline() {
        QVERIFY(timelineJson(RunTrace()).is_null());
        QVERIFY(!toJson(traceOf(0)).contains("timeline"));
    }

    void tooManyEventsAreCutAndThatIsSaid() {
        const auto read = runTraceFromJson(toJson(traceOf(mostStoredEvents / 2 + 7)), "test");
        QVERIFY(read);
        QCOMPARE(read->ranks[0].events.size(), mostStoredEvents / 2);
        QCOMPARE(read->statements.size(), std::size_t(1));
        QVERIFY(read->statements[0].find("14 later ones") != std::string::npos);
    }

    void damagedColumnsAreNamed_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::addRow("missing") << "duration_ns" << "";
        QTest::addRow("short") << "bytes" << "[1]";
        QTest::addRow("text") << "token" << R"(["a","b"])";
        QTest::addRow("kind") << "kind" << R"(["compute","nonsense"])";
        QTest::addRow("no list") << "start_ns" << "7";
    }
    void damagedColumnsAreNamed() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        nlohmann::json json = toJson(traceOf(2));
        auto &rank = json["timeline"]["ranks"][1];
        if (value.isEmpty())
            rank.erase(key.toStdString());
        else
            rank[key.toStdString()] = nlohmann::json::parse(value.toStdString());
        const auto read = runTraceFromJson(json, "bad.json");
        QVERIFY(!read);
        QVERIFY2(read.error().message.find(key.toStdString()) != std::string::npos, read.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TimelineJsonTest)
#include "timelinejsontest.moc"
