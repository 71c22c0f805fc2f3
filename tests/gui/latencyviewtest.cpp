// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/latencyview.h"

#include <QLabel>
#include <QTemporaryDir>
#include <QTest>
#include <qcustomplot.h>

#include "viewtesting.h"

using namespace tpscope;

class LatencyViewTest : public QObject {
    Q_OBJECT

private:
    struct Shown {
        RunStore store;
        LatencyView view{&store};
        Shown() {
            view.resize(900, 500);
            view.show();
        }
        void add(RunEntry entry) {
            store.setCurrent(store.add(std::move(entry)));
            QVERIFY(QTest::qWaitForWindowExposed(&view));
        }
    };

private slots:
    void anEmptyViewSaysWhatToDo() {
        Shown shown;
        QVERIFY(!shown.view.hasContent());
        bool told = false;
        for (const QLabel *label : shown.view.findChildren<QLabel *>())
            told = told || label->text().contains("F5");
        QVERIFY(told);
    }

    void bothSidesAreSummedUpWithTheirSource() {
        Shown shown;
        RunEntry entry;
        entry.comparison = std::make_shared<const Comparison>(viewtesting::measuredComparison());
        shown.add(entry);
        QVERIFY(shown.view.hasContent());
        for (const char *part : {"before", "after", "hollow", "filled", "median", "p90", "measured", "transformers"})
            QVERIFY2(shown.view.summary().contains(part), part);
        QCOMPARE(shown.view.fullSteps(), (TimeRange{-0.5, 79.5}));
        QTemporaryDir folder;
        QVERIFY(shown.view.savePng(folder.filePath("latency.png")));
    }

    void warmupStandsBeforeTheFirstMeasuredStep() {
        Shown shown;
        RunEntry entry;
        entry.trace = std::make_shared<const RunTrace>(viewtesting::traceWithEvents(10));
        shown.add(entry);
        QCOMPARE(shown.view.fullSteps(), (TimeRange{-2.5, 7.5}));
        QVERIFY(shown.view.summary().contains("2 warm-up steps"));
    }

    void keysZoomMoveAndFit() {
        Shown shown;
        RunEntry entry;
        entry.comparison = std::make_shared<const Comparison>(viewtesting::measuredComparison());
        shown.add(entry);
        const TimeRange all = shown.view.fullSteps();
        QCOMPARE(shown.view.shownSteps(), all);
        QTest::keyClick(&shown.view, Qt::Key_W);
        const TimeRange closer = shown.view.shownSteps();
        QVERIFY(closer.length() < all.length());
        QTest::keyClick(&shown.view, Qt::Key_D);
        QVERIFY(shown.view.shownSteps().from > closer.from);
        for (int i = 0; i < 30; ++i)
            QTest::keyClick(&shown.view, Qt::Key_W);
        QCOMPARE(shown.view.shownSteps().length(), 4.0);
        QTest::keyClick(&shown.view, Qt::Key_F);
        QCOMPARE(shown.view.shownSteps(), all);
    }
};

QTEST_MAIN(LatencyViewTest)
#include "latencyviewtest.moc"
