// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timelineview.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMetaObject>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <qcustomplot.h>

#include "plot/plotstyle.h"
#include "plot/timelineplottable.h"
#include "plot/timeticker.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr int laneHeight = 26;
constexpr int highestLane = 110;
constexpr std::size_t buildHereUpTo = 100'000; // events; more are sorted into lanes on a worker
constexpr double zoomStep = 0.7;
constexpr double panStep = 0.2;

std::size_t eventCount(const RunTrace &trace) {
    std::size_t count = 0;
    for (const RankTrace &rank : trace.ranks)
        count += rank.events.size();
    return count;
}

} // namespace

TimelineView::TimelineView(RunStore *store, Selection *selection, QWidget *parent)
    : QWidget(parent), m_store(store), m_selection(selection) {
    setFocusPolicy(Qt::StrongFocus);
    m_pool.setMaxThreadCount(1);
    buildPlot();
    buildLayout();
    applyColors();
    connect(m_store, &RunStore::currentChanged, this, &TimelineView::onRunChanged);
    connect(m_store, &RunStore::entryChanged, this, [this](int id) {
        if (id == m_store->current())
            onRunChanged();
    });
    connect(m_selection, &Selection::moduleSelected, this, &TimelineView::followModule);
    connect(m_selection, &Selection::rankSelected, this, [this](int rank) {
        const int index = m_rankBox->findData(rank);
        if (index >= 0)
            m_rankBox->setCurrentIndex(index);
    });
    onRunChanged();
}

TimelineView::~TimelineView() { m_pool.waitForDone(); }

void TimelineView::buildPlot() {
    m_plot = new QCustomPlot;
    m_plot->setFocusPolicy(Qt::NoFocus); // keys are the view's
    m_plot->setNoAntialiasingOnDrag(true);
    m_plot->setInteractions(QCP::iRangeDrag);
    m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
    m_plot->xAxis->setTicker(QSharedPointer<TimeTicker>::create());
    m_plot->xAxis->setLabel(tr("since the first token of its rank began"));
    m_plot->yAxis->setRangeReversed(true);
    m_plot->yAxis->setTickLength(0);
    m_plot->yAxis->setSubTicks(false);
    m_plot->yAxis->grid()->setVisible(false);
    m_plottable = new TimelinePlottable(m_plot->xAxis, m_plot->yAxis);
    m_plottable->setSelectable(QCP::stNone);
    m_plottable->setLabels([this](int lane, int item) {
        const Event *event = eventAt(lane, item);
        return event ? QString::fromStdString(shortLabel(traceOf(lane), *event)) : QString();
    });
    m_plot->installEventFilter(this);
    connect(m_plot->xAxis, qOverload<const QCPRange &>(&QCPAxis::rangeChanged), this, &TimelineView::onRangeChanged);
}

void TimelineView::buildBar() {
    m_bar = new QWidget;
    auto *bar = new QHBoxLayout(m_bar);
    bar->setContentsMargins(8, 6, 8, 2);
    m_rankBox = new QComboBox;
    m_rankBox->setAccessibleName(tr("Rank"));
    connect(m_rankBox, &QComboBox::currentIndexChanged, this, [this] {
        rebuild();
        if (m_rankBox->currentData().toInt() >= 0)
            m_selection->selectRank(m_rankBox->currentData().toInt());
    });
    bar->addWidget(m_rankBox);
    const auto button = [&](const QString &text, const QString &tip, auto action) {
        auto *added = new QToolButton;
        added->setText(text);
        added->setToolTip(tip);
        added->setAutoRaise(true);
        added->setFocusPolicy(Qt::NoFocus);
        connect(added, &QToolButton::clicked, this, action);
        bar->addWidget(added);
    };
    const auto zoom = [this](double factor) {
        const TimeRange range = shownRange();
        zoomAbout((range.from + range.to) / 2, factor);
    };
    button(tr("+"), tr("Zoom in (W)"), [zoom] { zoom(zoomStep); });
    button(tr("\u2212"), tr("Zoom out (S)"), [zoom] { zoom(1 / zoomStep); });
    button(tr("Fit"), tr("Show everything (F)"), [this] { fit(); });
    m_note = new QLabel;
    m_note->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_note->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    bar->addWidget(m_note, 1);
}

void TimelineView::buildLayout() {
    buildBar();
    m_scroll = new QScrollArea;
    m_scroll->setFrameShape(QFrame::NoFrame);
    m_scroll->setWidgetResizable(true);
    m_scroll->setFocusPolicy(Qt::NoFocus);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setWidget(m_plot);
    m_scroll->setBackgroundRole(QPalette::Base);
    m_details = new QLabel;
    m_details->setContentsMargins(8, 4, 8, 6);
    m_details->setTextFormat(Qt::PlainText);
    m_details->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    m_empty = new QLabel(tr("No run yet. Start one with Run (F5), or open a recorded comparison:\n"
                            "its tokens, collectives, launches and hooks appear here, rank by rank."));
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setWordWrap(true);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_bar);
    layout->addWidget(m_scroll, 1);
    layout->addWidget(m_details);
    layout->addWidget(m_empty, 1);
}

void TimelineView::applyColors() {
    applyTheme(*m_plot);
    m_plot->yAxis->setBasePen(Qt::NoPen);
    m_plottable->setColors(timelineColors(), Theme::color(Meaning::Error), Theme::accent());
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void TimelineView::changeEvent(QEvent *event) {
    QWidget::changeEvent(event);
    if (m_empty && (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange))
        applyColors();
}

void TimelineView::onRunChanged() {
    m_sides.clear();
    const auto add = [this](std::shared_ptr<const RunTrace> trace, const QString &word) {
        Side side{std::move(trace), word, false};
        if (eventCount(*side.trace) == 0) {
            auto tokens = std::make_shared<RunTrace>(*side.trace);
            tokens->ranks = {tokensEndToEnd(*side.trace)};
            side.trace = std::move(tokens);
            side.endToEnd = true;
        }
        if (eventCount(*side.trace) > 0)
            m_sides.push_back(std::move(side));
    };
    const RunEntry *entry = m_store->entry(m_store->current());
    if (entry && entry->comparison) {
        const auto &comparison = entry->comparison; // the sides share its lifetime
        add({comparison, &comparison->before}, Theme::mark(Meaning::Before) + ' ' + Theme::word(Meaning::Before));
        add({comparison, &comparison->after}, Theme::mark(Meaning::After) + ' ' + Theme::word(Meaning::After));
    } else if (entry && entry->trace) {
        add(entry->trace, {});
    }
    fillRanks();
    rebuild();
}

void TimelineView::fillRanks() {
    const QSignalBlocker blocker(m_rankBox);
    std::size_t ranks = 0;
    for (const Side &side : m_sides)
        ranks = std::max(ranks, side.trace->ranks.size());
    m_rankBox->clear();
    for (std::size_t i = 0; i < ranks; ++i) {
        const auto &side = *std::ranges::find_if(m_sides, [i](const Side &s) { return i < s.trace->ranks.size(); });
        const int rank = side.trace->ranks[i].rank;
        m_rankBox->addItem(tr("Rank %1").arg(rank), rank);
    }
    if (ranks > 1)
        m_rankBox->addItem(tr("All ranks"), allRanks);
    const int wanted = m_rankBox->findData(m_selection->rank());
    m_rankBox->setCurrentIndex(std::max(0, wanted));
    m_rankBox->setEnabled(ranks > 1);
}

void TimelineView::rebuild() {
    const quint64 serial = ++m_serial;
    const int wanted = m_rankBox->currentData().isValid() ? m_rankBox->currentData().toInt() : allRanks;
    std::size_t events = 0;
    std::vector<std::pair<std::size_t, std::size_t>> chosen; // side, rank
    for (std::size_t side = 0; side < m_sides.size(); ++side)
        for (std::size_t rank = 0; rank < m_sides[side].trace->ranks.size(); ++rank)
            if (wanted == allRanks || m_sides[side].trace->ranks[rank].rank == wanted) {
                chosen.emplace_back(side, rank);
                events += m_sides[side].trace->ranks[rank].events.size();
            }
    std::vector<std::shared_ptr<const RunTrace>> traces;
    for (const Side &side : m_sides)
        traces.push_back(side.trace);
    const auto build = [chosen, traces] {
        std::vector<LaneOf> lanes;
        for (const auto &[side, rank] : chosen)
            for (RankLane &lane : lanesOfRank(*traces[side], rank))
                lanes.push_back({side, std::move(lane)});
        return lanes;
    };
    if (events <= buildHereUpTo) {
        showLanes(build());
        return;
    }
    m_details->setText(tr("Sorting %L1 events ...").arg(events));
    m_pool.start([this, serial, build] {
        auto lanes = std::make_shared<std::vector<LaneOf>>(build());
        QMetaObject::invokeMethod(
            this,
            [this, serial, lanes] {
                if (serial == m_serial)
                    showLanes(std::move(*lanes));
            },
            Qt::QueuedConnection);
    });
}

void TimelineView::showLanes(std::vector<LaneOf> lanes) {
    std::vector<TimelinePlottable::Lane> shown;
    auto titles = QSharedPointer<QCPAxisTickerText>::create();
    m_keys.clear();
    for (LaneOf &lane : lanes) {
        const bool begins =
            !m_keys.empty() && (m_keys.back().side != lane.side || m_keys.back().rank != lane.lane.rank);
        titles->addTick(static_cast<double>(shown.size()), laneTitle(lane));
        m_keys.push_back({lane.side, lane.lane.rank});
        shown.push_back({laneTitle(lane), std::move(lane.lane.spans), lane.side == 0 && m_sides.size() > 1, begins});
    }
    const int count = static_cast<int>(shown.size());
    m_plottable->setLanes(std::move(shown));
    m_plot->yAxis->setTicker(titles);
    m_plot->yAxis->setRange(-0.6, std::max(1, count) - 0.4);
    m_plot->setMinimumHeight(count * laneHeight + 80);
    m_plot->setMaximumHeight(count * highestLane + 80);
    for (QWidget *widget : {m_bar, static_cast<QWidget *>(m_scroll), static_cast<QWidget *>(m_details)})
        widget->setVisible(count > 0);
    m_empty->setVisible(count == 0);
    const QString keys = tr("W S zoom, A D move, F fit");
    const bool tokensOnly = std::ranges::all_of(m_sides, &Side::endToEnd);
    const QString hint =
        tokensOnly ? tr("A run with the gloo or the simulated backend shows the inside of a token. %1.")
                   : tr("Point at an event to see what it is; a click selects its module. %1.");
    m_details->setText(hint.arg(keys));
    setNote();
    followModule(m_selection->module());
    fit();
}

bool TimelineView::hasContent() const { return !m_plottable->lanes().empty(); }

bool TimelineView::savePng(const QString &file, double scale) {
    return hasContent() && saveWidgetPng(*m_plot, file, scale);
}

TimeRange TimelineView::fullRange() const {
    TimeRange range = m_plottable->fullRange();
    const double margin = range.length() * 0.01;
    return {range.from - margin, range.to + margin};
}

TimeRange TimelineView::shownRange() const {
    const QCPRange range = m_plot->xAxis->range();
    return {range.lower, range.upper};
}

void TimelineView::showRange(const TimeRange &range) {
    const TimeRange clamped = zoomed(range, (range.from + range.to) / 2, 1.0, fullRange());
    m_adjusting = true;
    m_plot->xAxis->setRange(clamped.from, clamped.to);
    m_adjusting = false;
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

// A long load would leave the tokens a few pixels: then they are shown, and zooming out shows the load.
void TimelineView::fit() {
    TimeRange range = fullRange();
    if (range.from < -0.1 * range.length())
        range.from = -0.01 * range.to;
    showRange(range);
}

void TimelineView::zoomAbout(double about, double factor) {
    showRange(zoomed(shownRange(), about, factor, fullRange()));
}

// Dragging may leave what there is.
void TimelineView::onRangeChanged(const QCPRange &range) {
    if (!m_adjusting && hasContent())
        showRange(panned({range.lower, range.upper}, 0, fullRange()));
}

void TimelineView::keyPressEvent(QKeyEvent *event) {
    const TimeRange range = shownRange();
    const double middle = (range.from + range.to) / 2;
    if (!hasContent() || (event->modifiers() & ~(Qt::KeypadModifier | Qt::ShiftModifier))) {
        QWidget::keyPressEvent(event);
        return;
    }
    switch (event->key()) {
    case Qt::Key_W: case Qt::Key_Plus: zoomAbout(middle, zoomStep); break;
    case Qt::Key_S: case Qt::Key_Minus: zoomAbout(middle, 1 / zoomStep); break;
    case Qt::Key_A: case Qt::Key_Left: showRange(panned(range, -panStep, fullRange())); break;
    case Qt::Key_D: case Qt::Key_Right: showRange(panned(range, panStep, fullRange())); break;
    case Qt::Key_F: case Qt::Key_Home: fit(); break;
    default: QWidget::keyPressEvent(event);
    }
}

bool TimelineView::eventFilter(QObject *watched, QEvent *event) {
    if (watched != m_plot || !hasContent())
        return QWidget::eventFilter(watched, event);
    if (event->type() == QEvent::Wheel) {
        const auto *wheel = static_cast<QWheelEvent *>(event);
        const double turns = wheel->angleDelta().y() / 120.0;
        // Shift scrolls the lanes, as everywhere.
        if (turns == 0.0 || wheel->modifiers() & Qt::ShiftModifier)
            return false;
        zoomAbout(m_plot->xAxis->pixelToCoord(wheel->position().x()), std::pow(zoomStep, turns));
        return true;
    }
    if (event->type() == QEvent::MouseMove)
        onHover(static_cast<QMouseEvent *>(event)->pos());
    else if (event->type() == QEvent::MouseButtonPress)
        onClick(static_cast<QMouseEvent *>(event)->pos());
    return QWidget::eventFilter(watched, event);
}

} // namespace tpscope
