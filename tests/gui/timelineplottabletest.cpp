// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelineplottable.h"

#include <QTest>

#include "plot/latencyseries.h"
#include "plot/timelinelanes.h"
#include "viewtesting.h"

using namespace tpscope;

class TimelinePlottableTest : public QObject {
    Q_OBJECT

private slots:
    void lanesBeginAtTheFirstTokenOfTheirRank() {
        const RunTrace trace = viewtesting::traceWithEvents(10);
        for (std::size_t rank = 0; rank < 2; ++rank) {
            const std::vector<RankLane> lanes = lanesOfRank(trace, rank);
            QCOMPARE(lanes.size(), std::size_t(4)); // no hooks
            QVERIFY(lanes[0].kind == LaneKind::Tokens);
            QCOMPARE(lanes[0].spans.spans()[0].start, std::int64_t(-2'000'000)); // the load before it
            QCOMPARE(lanes[0].spans.spans()[1].start, std::int64_t(0));
        }
    }

    void onlyWhatIsSlowForItsKindIsMarked() {
        const RunTrace trace = viewtesting::traceWithEvents(10);
        const auto marked = [&](std::size_t rank) {
            std::vector<const Event *> found;
            for (const RankLane &lane : lanesOfRank(trace, rank))
                for (const TimelineSpan &span : lane.spans.spans())
                    if (lane.kind == LaneKind::Compute && span.weight >= TimelinePlottable::markedWeight)
                        found.push_back(&trace.ranks[rank].events[static_cast<std::size_t>(span.item)]);
            return found;
        };
        QCOMPARE(marked(0).size(), std::size_t(1));
        QCOMPARE(marked(0).front()->token, 3);
        QVERIFY(marked(1).empty());
    }

    void overlappingEventsGetLanesOfTheirOwn() {
        RunTrace trace;
        RankTrace rank;
        for (int i = 0; i < 8; ++i) {
            Event event;
            event.start = i * 10;
            event.duration = 100;
            rank.events.push_back(event);
        }
        trace.ranks.push_back(rank);
        const std::vector<RankLane> lanes = lanesOfRank(trace, 0);
        QCOMPARE(lanes.size(), std::size_t(4));
        std::size_t spans = 0;
        for (const RankLane &lane : lanes) {
            std::int64_t last = 0;
            for (const TimelineSpan &span : lane.spans.spans()) {
                QVERIFY(span.start >= last);
                last = span.end();
                ++spans;
            }
        }
        QCOMPARE(spans, rank.events.size());
    }

    void tokensLieEndToEndWithoutEvents() {
        RunTrace trace;
        trace.timeToFirstTokenMs = {3.0};
        trace.tokenMs = {1.0, 2.0};
        const RankTrace rank = tokensEndToEnd(trace);
        QCOMPARE(rank.events.size(), std::size_t(3));
        QCOMPARE(rank.events[2].start, std::int64_t(4'000'000));
        QCOMPARE(rank.events[2].duration, std::int64_t(2'000'000));
    }

    void aPointFindsItsSpan() {
        QCustomPlot plot;
        plot.resize(800, 300);
        auto *plottable = new TimelinePlottable(plot.xAxis, plot.yAxis);
        std::vector<TimelineSpan> spans{{0, 1000, 0, 1, 7}, {2000, 1000, 0, 1, 8}};
        plottable->setLanes({{"one", TimelineLane({{0, 500, 0, 1, 1}})}, {"two", TimelineLane(spans)}});
        plot.yAxis->setRangeReversed(true);
        plot.yAxis->setRange(-0.5, 1.5);
        plot.xAxis->setRange(0, 3000);
        plot.replot();
        const auto at = [&](double time, double lane) {
            return QPointF(plot.xAxis->coordToPixel(time), plot.yAxis->coordToPixel(lane));
        };
        QCOMPARE(plottable->hitAt(at(500, 1)).item, 7);
        QCOMPARE(plottable->hitAt(at(2500, 1)).item, 8);
        QCOMPARE(plottable->hitAt(at(1500, 1)).item, -1);
        QCOMPARE(plottable->hitAt(at(250, 0)).item, 1);
        QCOMPARE(plottable->fullRange(), (TimeRange{0, 3000}));
    }

    void aThinRareSpanIsPaintedAtEveryZoom() {
        QCustomPlot plot;
        plot.resize(800, 200);
        auto *plottable = new TimelinePlottable(plot.xAxis, plot.yAxis);
        std::vector<TimelineSpan> spans;
        for (int i = 0; i < 100'000; ++i)
            spans.push_back({i * 100LL, 90, static_cast<std::uint8_t>(i == 54'321 ? 1 : 0),
                             static_cast<std::uint8_t>(i == 54'321 ? 255 : 10), i});
        plottable->setLanes({{"one", TimelineLane(std::move(spans)), false}});
        plottable->setColors({QColor(Qt::gray), QColor(Qt::magenta)}, Qt::red, Qt::blue);
        plot.yAxis->setRange(-0.5, 0.5);
        // At every zoom, and wherever it then lies: from all 100 000 spans down to less than this one.
        const double middle = 54'321 * 100.0 + 45;
        for (double length = 1e7; length > 40; length /= 3.7)
            for (const double place : {0.1, 0.5, 0.9}) {
                const double from = middle - place * length;
                plot.xAxis->setRange(from, from + length);
                plot.replot();
                const QImage image = plot.toPixmap(800, 200).toImage();
                const int x = static_cast<int>(plot.xAxis->coordToPixel(middle));
                const int y = static_cast<int>(plot.yAxis->coordToPixel(0));
                bool seen = false;
                for (int near = x - 1; near <= x + 1; ++near)
                    seen = seen || image.pixelColor(near, y) == QColor(Qt::magenta);
                QVERIFY2(seen, qPrintable(QStringLiteral("%1 at %2").arg(length).arg(place)));
            }
    }

    void latencySeriesKnowsRepeatsAndWarmup() {
        const LatencySeries series = latencySeries(viewtesting::traceWithEvents(10));
        QCOMPARE(series.steps.size(), std::size_t(8));
        QCOMPARE(series.warmup.size(), std::size_t(2));
        const LatencySeries pooled = latencySeries(viewtesting::measuredComparison().before);
        QCOMPARE(pooled.repeats, std::vector<std::size_t>{40});
        QVERIFY(pooled.warmup.empty());
    }

    void histogramsShareTheirBinsAndLoseNothing() {
        const HistogramPair pair = histograms({1, 2, 3, 4}, {3, 9});
        QCOMPARE(pair.a.low, pair.b.low);
        QCOMPARE(pair.a.counts.size(), pair.b.counts.size());
        QCOMPARE(std::accumulate(pair.a.counts.begin(), pair.a.counts.end(), 0), 4);
        QCOMPARE(std::accumulate(pair.b.counts.begin(), pair.b.counts.end(), 0), 2);
        const HistogramPair same = histograms({5, 5, 5}, {});
        QCOMPARE(same.a.counts, std::vector<int>{3});
        QVERIFY(same.a.width > 0);
        QVERIFY(histograms({}, {}).a.counts.empty());
    }

    void unitsSuitTheSize() {
        QCOMPARE(QString::fromStdString(durationText(12'300)), QString("12.3 us"));
        QCOMPARE(QString::fromStdString(durationText(4'200'000)), QString("4.20 ms"));
        QCOMPARE(QString::fromStdString(durationText(1.26e9)), QString("1.26 s"));
        QCOMPARE(QString::fromStdString(bytesText(1536)), QString("1.5 KiB"));
    }
};

QTEST_MAIN(TimelinePlottableTest)
#include "timelineplottabletest.moc"
