// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timelineview.h"

#include <QComboBox>
#include <QLabel>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <qcustomplot.h>

#include "plot/timelineplottable.h"
#include "viewtesting.h"

using namespace tpscope;

class TimelineViewTest : public QObject {
    Q_OBJECT

private:
    struct Shown {
        RunStore store;
        Selection selection;
        TimelineView view{&store, &selection};
        Shown() {
            view.resize(900, 500);
            view.show();
        }
        void add(RunTrace trace) {
            RunEntry entry;
            entry.trace = std::make_shared<const RunTrace>(std::move(trace));
            store.setCurrent(store.add(entry));
            settle();
        }
        void add(Comparison comparison) {
            RunEntry entry;
            entry.comparison = std::make_shared<const Comparison>(std::move(comparison));
            store.setCurrent(store.add(entry));
            settle();
        }
        void settle() {
            QVERIFY(QTest::qWaitForWindowExposed(&view));
            QCoreApplication::processEvents();
            view.plot()->replot();
        }
        // Widget position of a time in a lane.
        QPoint at(double time, int lane) const {
            return QPointF(view.plot()->xAxis->coordToPixel(time), view.plot()->yAxis->coordToPixel(lane)).toPoint();
        }
    };

private slots:
    void anEmptyViewSaysWhatToDo() {
        Shown shown;
        shown.settle();
        QVERIFY(!shown.view.hasContent());
        QVERIFY(!shown.view.savePng("/nowhere.png"));
        bool told = false;
        for (const QLabel *label : shown.view.findChildren<QLabel *>())
            told = told || (label->isVisible() && label->text().contains("F5"));
        QVERIFY(told);
    }

    void aRunFillsLanesOfTheChosenRank() {
        Shown shown;
        shown.add(viewtesting::traceWithEvents(10));
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(4));
        auto *ranks = shown.view.findChild<QComboBox *>();
        QCOMPARE(ranks->count(), 3); // two ranks, and all
        ranks->setCurrentIndex(2);
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(8));
        shown.selection.selectRank(1);
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(4));
        ranks->setCurrentIndex(0);
        QCOMPARE(shown.selection.rank(), 0);
    }

    void keysZoomMoveAndFit() {
        Shown shown;
        shown.add(viewtesting::traceWithEvents(40));
        const TimeRange all = shown.view.fullRange();
        QCOMPARE(shown.view.shownRange(), all);
        QTest::keyClick(&shown.view, Qt::Key_W);
        const TimeRange closer = shown.view.shownRange();
        QVERIFY(closer.length() < all.length());
        QVERIFY(closer.from > all.from && closer.to < all.to);
        QTest::keyClick(&shown.view, Qt::Key_D);
        QVERIFY(shown.view.shownRange().from > closer.from);
        QTest::keyClick(&shown.view, Qt::Key_A);
        QVERIFY(std::abs(shown.view.shownRange().from - closer.from) < 1);
        QTest::keyClick(&shown.view, Qt::Key_S);
        QVERIFY(std::abs(shown.view.shownRange().length() - all.length()) < 1);
        QTest::keyClick(&shown.view, Qt::Key_W);
        QTest::keyClick(&shown.view, Qt::Key_F);
        QCOMPARE(shown.view.shownRange(), all);
        for (int i = 0; i < 50; ++i)
            QTest::keyClick(&shown.view, Qt::Key_D);
        QVERIFY(shown.view.shownRange().to <= all.to + 1);
    }

    void aClickSelectsTheModuleAndHoverNamesTheEvent() {
        Shown shown;
        shown.add(viewtesting::traceWithEvents(10));
        // Lane 2 is compute; step 0 begins at 3 ms with q_proj of layer 0.
        QCOMPARE(shown.view.plottable()->lanes()[2].title, QString("compute"));
        shown.view.showRange({2.9e6, 3.5e6});
        shown.view.plot()->replot();
        QTest::mouseMove(shown.view.plot(), shown.at(3.07e6, 2));
        bool named = false;
        for (const QLabel *label : shown.view.findChildren<QLabel *>())
            named = named || (label->text().contains("model.layers.0.self_attn.q_proj") &&
                              label->text().contains("linear") && label->text().contains("measured"));
        QVERIFY(named);
        QTest::mouseClick(shown.view.plot(), Qt::LeftButton, {}, shown.at(3.17e6, 2));
        QCOMPARE(shown.selection.module(), QString("model.layers.1.self_attn.q_proj"));
        QVERIFY(shown.view.hasFocus());
    }

    void beforeAndAfterShareOneAxis() {
        Shown shown;
        shown.add(compare(viewtesting::traceWithEvents(10, HookMode::ModuleBackward),
                          viewtesting::traceWithEvents(10)));
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(8));
        QVERIFY(shown.view.plottable()->lanes().front().hollow);
        QVERIFY(!shown.view.plottable()->lanes().back().hollow);
        QVERIFY(shown.view.plottable()->lanes().front().title.contains("before"));
        QCOMPARE(shown.view.plottable()->lanes()[0].spans.spans()[1].start, std::int64_t(0));
        QCOMPARE(shown.view.plottable()->lanes()[4].spans.spans()[1].start, std::int64_t(0));
    }

    void aRunWithoutEventsShowsItsTokensAndSaysSo() {
        Shown shown;
        shown.add(viewtesting::measuredComparison());
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(2));
        bool told = false;
        for (const QLabel *label : shown.view.findChildren<QLabel *>())
            told = told || label->text().contains("end to end");
        QVERIFY(told);
        QTemporaryDir folder;
        const QString file = folder.filePath("timeline.png");
        QVERIFY(shown.view.savePng(file));
        QVERIFY(QImage(file).width() > 1000);
    }

    void manyEventsAreSortedOnAWorker() {
        Shown shown;
        shown.add(viewtesting::traceWithEvents(30'000));
        QTRY_VERIFY_WITH_TIMEOUT(shown.view.hasContent(), 10'000);
        QCOMPARE(shown.view.plottable()->lanes().size(), std::size_t(4));
    }
};

QTEST_MAIN(TimelineViewTest)
#include "timelineviewtest.moc"
