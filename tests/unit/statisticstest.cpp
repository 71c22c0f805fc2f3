// SPDX-License-Identifier: GPL-3.0-or-later
#include "measure/statistics.h"

#include <QTest>
#include <cmath>
#include <random>

using namespace tpscope;

namespace {

// Autocorrelated heavy-tailed noise: x_i = phi x_{i-1} + e_i, e from Student's t with 2 degrees of freedom.
std::vector<double> noise(std::mt19937_64 &random, std::size_t n, double phi, double centre) {
    std::student_t_distribution<double> step(2.0);
    std::vector<double> values;
    double x = 0.0;
    for (std::size_t i = 0; i < n + 100; ++i) {
        x = phi * x + step(random);
        if (i >= 100)
            values.push_back(centre + x);
    }
    return values;
}

bool claims(const ShiftEstimate &estimate) {
    return estimate.p < 0.05 && (estimate.low > 0.0 || estimate.high < 0.0);
}

} // namespace

class StatisticsTest : public QObject {
    Q_OBJECT
private slots:
    void summary() {
        const Summary s = summarize({4, 1, 3, 2, 100});
        QCOMPARE(s.n, std::size_t{5});
        QCOMPARE(s.median, 3.0);
        QCOMPARE(s.mad, 1.0);
        QCOMPARE(s.p90, 61.6); // numpy.percentile(..., 90)
        QCOMPARE(summarize({}).n, std::size_t{0});
    }

    // scipy mannwhitneyu(method="exact"), and the interval by enumerating all 462 arrangements.
    void exactSmallSamples() {
        const ShiftEstimate e = estimateShift({1.0, 2.3, 3.1, 4.7, 5.9, 7.2}, {2.9, 4.1, 5.3, 8.8, 9.6});
        QVERIFY(std::abs(e.p - 0.32900432900432897) < 1e-12);
        QVERIFY(std::abs(e.shift - 2.05) < 1e-12);
        QVERIFY(std::abs(e.low + 1.9) < 1e-9 && std::abs(e.high - 6.5) < 1e-9);
        QVERIFY(std::abs(estimateShift({1, 2, 3, 4}, {5, 6, 7, 8}).p - 2.0 / 70.0) < 1e-12);
    }

    void tooFewForAnInterval() {
        const ShiftEstimate e = estimateShift({1, 2, 3}, {4, 5, 6});
        QVERIFY(std::isinf(e.low) && std::isinf(e.high));
        QVERIFY(estimateShift({}, {1.0}).p == 1.0);
    }

    void equalSamplesShowNothing() {
        const ShiftEstimate e = estimateShift(std::vector<double>(20, 5.0), std::vector<double>(20, 5.0));
        QCOMPARE(e.shift, 0.0);
        QCOMPARE(e.p, 1.0);
    }

    void findsARealShift() {
        std::mt19937_64 random(7);
        const ShiftEstimate e = estimateShiftOfSeries(noise(random, 60, 0.3, 70.0), noise(random, 60, 0.3, 50.0));
        QVERIFY(claims(e));
        QVERIFY(e.low < -15.0 && std::abs(e.shift + 20.0) < 3.0);
    }

    // Identical programs: at most 5 % of 200 pairs may be called different, however their noise is correlated.
    void identicalRunsAreNotCalledDifferent_data() {
        QTest::addColumn<double>("phi");
        QTest::newRow("independent") << 0.0;
        QTest::newRow("some memory") << 0.3;
        QTest::newRow("long memory") << 0.6;
    }
    void identicalRunsAreNotCalledDifferent() {
        QFETCH(double, phi);
        std::mt19937_64 random(20240101);
        int claimed = 0;
        for (int pair = 0; pair < 200; ++pair)
            claimed += claims(estimateShiftOfSeries(noise(random, 30, phi, 50.0), noise(random, 30, phi, 50.0)));
        QVERIFY2(claimed <= 10, qPrintable(QString::number(claimed) + " of 200 claimed"));
    }
};

QTEST_APPLESS_MAIN(StatisticsTest)
#include "statisticstest.moc"
