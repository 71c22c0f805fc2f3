// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timelinegeometry.h"

#include <QTest>
#include <random>

using namespace tpscope;

namespace {

// Spans in a row with gaps, some without duration.
std::vector<TimelineSpan> randomSpans(std::mt19937 &random, int count) {
    std::vector<TimelineSpan> spans;
    std::int64_t at = 0;
    for (int i = 0; i < count; ++i) {
        at += static_cast<std::int64_t>(random() % 5);
        const auto duration = static_cast<std::int64_t>(random() % 7);
        spans.push_back({at, duration, 0, static_cast<std::uint8_t>(random() % 4), i});
        at += std::max<std::int64_t>(1, duration);
    }
    return spans;
}

// What the definition says: the heaviest span that touches [left, right), the first of equals; -1 none.
std::ptrdiff_t heaviestIn(const std::vector<TimelineSpan> &spans, double left, double right) {
    std::ptrdiff_t best = -1;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const double start = static_cast<double>(spans[i].start), end = static_cast<double>(spans[i].end());
        const bool touches = start < right && (end > left || (spans[i].duration == 0 && start >= left));
        if (touches && (best < 0 || spans[i].weight > spans[static_cast<std::size_t>(best)].weight))
            best = static_cast<std::ptrdiff_t>(i);
    }
    return best;
}

} // namespace

class TimelineGeometryTest : public QObject {
    Q_OBJECT

private slots:
    void everyColumnShowsItsHeaviestSpan() {
        std::mt19937 random(7);
        for (int round = 0; round < 200; ++round) {
            const TimelineLane lane(randomSpans(random, 1 + static_cast<int>(random() % 60)));
            const double from = -5.0 + static_cast<double>(random() % 100);
            const double to = from + 1.0 + static_cast<double>(random() % 300);
            const int width = 1 + static_cast<int>(random() % 40);
            std::vector<std::ptrdiff_t> shown(static_cast<std::size_t>(width), -1);
            int last = 0;
            for (const PixelRun &run : visibleRuns(lane, from, to, width)) {
                QVERIFY(run.left >= last && run.right > run.left && run.right <= width);
                last = run.right;
                for (int x = run.left; x < run.right; ++x)
                    shown[static_cast<std::size_t>(x)] = static_cast<std::ptrdiff_t>(run.span);
            }
            const double perPixel = (to - from) / width;
            for (int x = 0; x < width; ++x) {
                const double left = from + perPixel * x;
                QCOMPARE(shown[static_cast<std::size_t>(x)], heaviestIn(lane.spans(), left, left + perPixel));
                QCOMPARE(spanAt(lane, from, to, width, x), shown[static_cast<std::size_t>(x)]);
            }
        }
    }

    void oneRareSpanAmongAMillionIsSeenAtEveryZoom() {
        std::vector<TimelineSpan> spans;
        constexpr std::int64_t count = 1'000'000;
        constexpr std::int64_t rare = 723'451;
        for (std::int64_t i = 0; i < count; ++i)
            spans.push_back({i * 100, 90, 0, static_cast<std::uint8_t>(i == rare ? 255 : 10),
                             static_cast<std::int32_t>(i)});
        const TimelineLane lane(std::move(spans));
        TimeRange range{0, 100.0 * count};
        const TimeRange all = range;
        for (int step = 0; step < 40; ++step) {
            const auto runs = visibleRuns(lane, range.from, range.to, 1200);
            QVERIFY(runs.size() <= 1200);
            QVERIFY(std::ranges::any_of(runs, [](const PixelRun &run) { return run.span == rare; }));
            range = zoomed(range, rare * 100 + 45, 0.6, all);
        }
    }

    void zoomKeepsThePointAndTheLimits() {
        const TimeRange limits{0, 1e9};
        const TimeRange closer = zoomed({2e8, 4e8}, 3e8, 0.5, limits);
        QCOMPARE(closer, (TimeRange{2.5e8, 3.5e8}));
        QCOMPARE(zoomed(closer, 3e8, 100, limits), limits);
        QCOMPARE(zoomed({0, 2000}, 1000, 0.001, limits).length(), 1000.0);
        QCOMPARE(zoomed({0, 10}, 5, 0.01, {0, 100}, 4).length(), 4.0);
    }

    void panStopsAtTheEnds() {
        const TimeRange limits{0, 1000};
        QCOMPARE(panned({100, 300}, 0.5, limits), (TimeRange{200, 400}));
        QCOMPARE(panned({100, 300}, -5, limits), (TimeRange{0, 200}));
        QCOMPARE(panned({100, 300}, 50, limits), (TimeRange{800, 1000}));
    }

    void emptyThingsAreEmpty() {
        const TimelineLane none;
        QVERIFY(visibleRuns(none, 0, 10, 100).empty());
        QCOMPARE(spanAt(none, 0, 10, 100, 5), std::ptrdiff_t(-1));
        const TimelineLane one({{5, 5, 0, 0, 0}});
        QVERIFY(visibleRuns(one, 10, 10, 100).empty());
        QVERIFY(visibleRuns(one, 0, 10, 0).empty());
        QCOMPARE(spanAt(one, 0, 20, 20, 25), std::ptrdiff_t(-1));
    }
};

QTEST_GUILESS_MAIN(TimelineGeometryTest)
#include "timelinegeometrytest.moc"
