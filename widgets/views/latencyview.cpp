// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/latencyview.h"

#include <QKeyEvent>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <qcustomplot.h>

#include "measure/statistics.h"
#include "plot/plotstyle.h"
#include "plot/timeticker.h"
#include "report/comparisonfacts.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr double zoomStep = 0.7;
constexpr double panStep = 0.2;
constexpr double fewestShown = 4.0; // steps
constexpr std::size_t mostDots = 1500;

QString q(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

} // namespace

LatencyView::LatencyView(RunStore *store, QWidget *parent) : QWidget(parent), m_store(store) {
    setFocusPolicy(Qt::StrongFocus);
    buildPlot();
    buildLayout();
    connect(m_store, &RunStore::currentChanged, this, &LatencyView::onRunChanged);
    connect(m_store, &RunStore::entryChanged, this, [this](int id) {
        if (id == m_store->current())
            onRunChanged();
    });
    onRunChanged();
}

void LatencyView::buildPlot() {
    m_plot = new QCustomPlot;
    m_plot->setFocusPolicy(Qt::NoFocus); // keys are the view's
    m_plot->setMinimumSize(320, 180);
    m_plot->installEventFilter(this);
    m_plot->plotLayout()->clear();
    for (QCPAxisRect **rect : {&m_firstRect, &m_stepRect, &m_distRect}) {
        *rect = new QCPAxisRect(m_plot);
        m_plot->plotLayout()->addElement(0, m_plot->plotLayout()->columnCount(), *rect);
        for (QCPAxis *axis : (*rect)->axes()) {
            axis->setLayer("axes");
            axis->grid()->setLayer("grid");
        }
    }
    m_plot->plotLayout()->setColumnStretchFactors({1.1, 5.0, 1.9});
    m_firstRect->axis(QCPAxis::atLeft)->setLabel(tr("first token, ms"));
    m_stepRect->axis(QCPAxis::atLeft)->setLabel(tr("decode step, ms"));
    m_stepRect->axis(QCPAxis::atBottom)->setLabel(tr("step, all repeats in order"));
    m_distRect->axis(QCPAxis::atBottom)->setLabel(tr("steps of this time"));
    m_distRect->axis(QCPAxis::atLeft)->setTickLabels(false);
    m_stepRect->axis(QCPAxis::atBottom)->setTicker(QSharedPointer<WholeTicker>::create());
    m_distRect->axis(QCPAxis::atBottom)->setTicker(QSharedPointer<WholeTicker>::create(3));
    m_firstRect->axis(QCPAxis::atBottom)->grid()->setVisible(false);
    m_distRect->axis(QCPAxis::atBottom)->grid()->setVisible(false);
    m_plot->setInteractions(QCP::iRangeDrag);
    m_stepRect->setRangeDrag(Qt::Horizontal);
    for (QCPAxisRect *rect : {m_firstRect, m_distRect})
        rect->setRangeDrag({});
    connect(m_stepRect->axis(QCPAxis::atBottom), qOverload<const QCPRange &>(&QCPAxis::rangeChanged), this,
            [this](const QCPRange &range) {
                if (!m_adjusting && hasContent())
                    showRange(panned({range.lower, range.upper}, 0, fullSteps()));
            });
}

void LatencyView::buildLayout() {
    m_summary = new QLabel;
    m_summary->setContentsMargins(8, 6, 8, 4);
    m_summary->setTextFormat(Qt::RichText);
    m_summary->setWordWrap(true);
    m_summary->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_empty = new QLabel(tr("No run yet. Start one with Run (F5) or Compare, or open a recorded comparison:\n"
                            "the time of each token and its distribution appear here."));
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setWordWrap(true);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_summary);
    layout->addWidget(m_plot, 1);
    layout->addWidget(m_empty, 1);
}

void LatencyView::onRunChanged() {
    m_sides.clear();
    const auto add = [this](std::shared_ptr<const RunTrace> trace, bool before, const QString &word) {
        LatencySeries series = latencySeries(*trace);
        if (!series.steps.empty() || !series.first.empty())
            m_sides.push_back({std::move(trace), std::move(series), before, word});
    };
    const RunEntry *entry = m_store->entry(m_store->current());
    if (entry && entry->comparison) {
        const auto &comparison = entry->comparison;
        add({comparison, &comparison->before}, true, Theme::mark(Meaning::Before) + ' ' + Theme::word(Meaning::Before));
        add({comparison, &comparison->after}, false, Theme::mark(Meaning::After) + ' ' + Theme::word(Meaning::After));
    } else if (entry && entry->trace) {
        add(entry->trace, false, tr("this run"));
    }
    m_summary->setVisible(hasContent());
    m_plot->setVisible(hasContent());
    m_empty->setVisible(!hasContent());
    draw();
}

bool LatencyView::hasContent() const { return !m_sides.empty(); }

void LatencyView::draw() {
    m_plot->clearPlottables();
    m_plot->clearItems();
    applyTheme(*m_plot);
    if (!hasContent())
        return;
    for (const Side &side : m_sides) {
        drawSteps(side);
        drawLevels(side);
    }
    drawRepeats(m_sides.front());
    drawFirstTokens();
    drawDistribution();
    setSummary();
    setRanges();
}

void LatencyView::drawSteps(const Side &side) {
    QCPAxis *x = m_stepRect->axis(QCPAxis::atBottom);
    QCPAxis *y = m_stepRect->axis(QCPAxis::atLeft);
    const QColor color = Theme::color(side.before ? Meaning::Before : Meaning::After);
    QColor pale = color;
    pale.setAlpha(70);
    QVector<double> keys, values;
    for (std::size_t i = 0; i < side.series.steps.size(); ++i) {
        keys << static_cast<double>(i);
        values << side.series.steps[i];
    }
    auto *graph = m_plot->addGraph(x, y);
    graph->setData(keys, values, true);
    graph->setPen(QPen(pale, 1, side.before ? Qt::DashLine : Qt::SolidLine));
    if (side.series.steps.size() <= mostDots)
        graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(color, 1),
                                               side.before ? QBrush(Qt::NoBrush) : QBrush(color), 5));
    graph->setName(side.word);
    if (side.series.warmup.empty())
        return;
    auto *warmup = m_plot->addGraph(x, y);
    QVector<double> warmKeys, warmValues;
    for (std::size_t i = 0; i < side.series.warmup.size(); ++i) {
        warmKeys << static_cast<double>(i) - static_cast<double>(side.series.warmup.size());
        warmValues << side.series.warmup[i];
    }
    warmup->setData(warmKeys, warmValues, true);
    warmup->setLineStyle(QCPGraph::lsNone);
    warmup->setScatterStyle(
        QCPScatterStyle(side.before ? QCPScatterStyle::ssPlus : QCPScatterStyle::ssCross, Theme::subtleText(), 7));
}

// Median and p90 as lines across steps and distribution. Labels of the two sides stand at opposite ends.
void LatencyView::drawLevels(const Side &side) {
    if (side.series.steps.empty())
        return;
    const Summary summary = summarize(side.series.steps);
    const QColor color = QApplication::palette().color(QPalette::Text);
    const auto level = [&](double ms, const QString &name, bool strong) {
        for (QCPAxisRect *rect : {m_stepRect, m_distRect}) {
            auto *line = new QCPItemStraightLine(m_plot);
            line->setClipAxisRect(rect);
            for (QCPItemPosition *point : {line->point1, line->point2}) {
                point->setAxisRect(rect);
                point->setAxes(rect->axis(QCPAxis::atBottom), rect->axis(QCPAxis::atLeft));
            }
            line->point1->setCoords(0, ms);
            line->point2->setCoords(1, ms);
            QColor pen = color;
            pen.setAlpha(strong ? 230 : 130);
            const Qt::PenStyle after = strong ? Qt::SolidLine : Qt::DotLine;
            line->setPen(QPen(pen, strong ? 1.5 : 1.0, side.before ? Qt::DashLine : after));
        }
        auto *label = new QCPItemText(m_plot);
        label->setClipAxisRect(m_stepRect);
        label->position->setAxisRect(m_stepRect);
        label->position->setAxes(m_stepRect->axis(QCPAxis::atBottom), m_stepRect->axis(QCPAxis::atLeft));
        label->position->setTypeX(QCPItemPosition::ptAxisRectRatio);
        label->position->setTypeY(QCPItemPosition::ptPlotCoords);
        label->position->setCoords(side.before ? 0.005 : 0.995, ms);
        label->setPositionAlignment((side.before ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignBottom);
        label->setText(name + ' ' + QString::fromStdString(milliseconds(ms)));
        label->setFont(font());
        label->setColor(color);
        QColor background = QApplication::palette().color(QPalette::Base);
        background.setAlpha(200);
        label->setBrush(background);
        label->setPadding(QMargins(3, 0, 3, 0));
    };
    const QString who = m_sides.size() > 1 ? side.word.left(1) + ' ' : QString();
    level(summary.median, who + tr("median"), true);
    if (summary.n > 1 && summary.p90 > summary.median * 1.005)
        level(summary.p90, who + tr("p90"), false);
}

void LatencyView::drawRepeats(const Side &side) {
    for (const std::size_t start : side.series.repeats) {
        auto *line = new QCPItemStraightLine(m_plot);
        line->setClipAxisRect(m_stepRect);
        for (QCPItemPosition *point : {line->point1, line->point2}) {
            point->setAxisRect(m_stepRect);
            point->setAxes(m_stepRect->axis(QCPAxis::atBottom), m_stepRect->axis(QCPAxis::atLeft));
        }
        line->point1->setCoords(static_cast<double>(start) - 0.5, 0);
        line->point2->setCoords(static_cast<double>(start) - 0.5, 1);
        line->setPen(QPen(Theme::grid(), 1));
    }
}

void LatencyView::drawFirstTokens() {
    QCPAxis *x = m_firstRect->axis(QCPAxis::atBottom);
    QCPAxis *y = m_firstRect->axis(QCPAxis::atLeft);
    auto ticks = QSharedPointer<QCPAxisTickerText>::create();
    double most = 0.0;
    for (std::size_t i = 0; i < m_sides.size(); ++i) {
        const Side &side = m_sides[i];
        const QColor color = Theme::color(side.before ? Meaning::Before : Meaning::After);
        ticks->addTick(static_cast<double>(i), m_sides.size() > 1 ? side.word.left(1) : QString());
        auto *graph = m_plot->addGraph(x, y);
        graph->setLineStyle(QCPGraph::lsNone);
        graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(color, 1),
                                               side.before ? QBrush(Qt::NoBrush) : QBrush(color), 6));
        const std::size_t n = side.series.first.size();
        for (std::size_t k = 0; k < n; ++k) {
            // Side by side, so that repeats of one time do not cover each other.
            const double shift = n > 1 ? 0.36 * (static_cast<double>(k) / static_cast<double>(n - 1) - 0.5) : 0.0;
            graph->addData(static_cast<double>(i) + shift, side.series.first[k]);
            most = std::max(most, side.series.first[k]);
        }
    }
    x->setTicker(ticks);
    x->setSubTicks(false);
    x->setRange(-0.6, static_cast<double>(m_sides.size()) - 0.4);
    y->setRange(0, most > 0 ? most * 1.12 : 1.0);
    x->setLabel(tr("prefill"));
}

void LatencyView::drawDistribution() {
    static const std::vector<double> nothing;
    const std::vector<double> &second = m_sides.size() > 1 ? m_sides[1].series.steps : nothing;
    const HistogramPair pair = histograms(m_sides[0].series.steps, second);
    int most = 1;
    for (std::size_t i = 0; i < m_sides.size(); ++i) {
        const Histogram &histogram = i == 0 ? pair.a : pair.b;
        const QColor color = Theme::color(m_sides[i].before ? Meaning::Before : Meaning::After);
        QColor fill = color;
        fill.setAlpha(m_sides[i].before ? 0 : 120);
        auto *bars = new QCPBars(m_distRect->axis(QCPAxis::atLeft), m_distRect->axis(QCPAxis::atBottom));
        bars->setWidthType(QCPBars::wtPlotCoords);
        bars->setWidth(histogram.width);
        bars->setPen(QPen(color, 1));
        bars->setBrush(fill);
        for (std::size_t bin = 0; bin < histogram.counts.size(); ++bin)
            if (histogram.counts[bin] > 0) {
                bars->addData(histogram.center(bin), histogram.counts[bin]);
                most = std::max(most, histogram.counts[bin]);
            }
    }
    m_distRect->axis(QCPAxis::atBottom)->setRange(0, most * 1.08);
}

TimeRange LatencyView::fullSteps() const {
    double from = -0.5, to = 0.5;
    for (const Side &side : m_sides) {
        from = std::min(from, -0.5 - static_cast<double>(side.series.warmup.size()));
        to = std::max(to, static_cast<double>(side.series.steps.size()) - 0.5);
    }
    return {from, to};
}

TimeRange LatencyView::shownSteps() const {
    const QCPRange range = m_stepRect->axis(QCPAxis::atBottom)->range();
    return {range.lower, range.upper};
}

void LatencyView::setRanges() {
    double most = 0.0;
    for (const Side &side : m_sides)
        for (const std::vector<double> *values : {&side.series.steps, &side.series.warmup})
            for (const double ms : *values)
                most = std::max(most, ms);
    for (QCPAxisRect *rect : {m_stepRect, m_distRect})
        rect->axis(QCPAxis::atLeft)->setRange(0, most > 0 ? most * 1.08 : 1.0);
    fit();
}

void LatencyView::showRange(const TimeRange &steps) {
    m_adjusting = true;
    m_stepRect->axis(QCPAxis::atBottom)->setRange(steps.from, steps.to);
    m_adjusting = false;
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void LatencyView::fit() { showRange(fullSteps()); }

void LatencyView::setSummary() {
    QStringList lines;
    for (const Side &side : m_sides) {
        const Summary summary = summarize(side.series.steps);
        QString line = QStringLiteral("<b>%1</b> ").arg(side.word.toHtmlEscaped());
        if (m_sides.size() > 1)
            line += (side.before ? tr("(hollow) ") : tr("(filled) "));
        if (summary.n > 0)
            line += tr("median <b>%1</b>, p90 %2 over %3 steps")
                        .arg(QString::fromStdString(milliseconds(summary.median)),
                             QString::fromStdString(milliseconds(summary.p90)))
                        .arg(summary.n);
        if (!side.series.first.empty())
            line += tr(", first token %1")
                        .arg(QString::fromStdString(milliseconds(summarize(side.series.first).median)));
        line += QStringLiteral(" \u2013 <b>%1</b>, %2, tp %3")
                    .arg(q(name(side.trace->source)), q(name(side.trace->backend)))
                    .arg(side.trace->tp);
        line += side.series.warmup.empty() ? tr("; warm-up left out")
                                           : tr("; %1 warm-up steps (crosses) left out").arg(side.series.warmup.size());
        lines << line;
    }
    m_summary->setText(lines.join(QStringLiteral("<br>")));
}

QString LatencyView::summary() const { return m_summary->text(); }

bool LatencyView::savePng(const QString &file, double scale) {
    return hasContent() && saveWidgetPng(*m_plot, file, scale);
}

void LatencyView::changeEvent(QEvent *event) {
    QWidget::changeEvent(event);
    if (m_empty && (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange))
        draw();
}

void LatencyView::keyPressEvent(QKeyEvent *event) {
    const TimeRange range = shownSteps();
    const double middle = (range.from + range.to) / 2;
    if (!hasContent() || (event->modifiers() & ~(Qt::KeypadModifier | Qt::ShiftModifier))) {
        QWidget::keyPressEvent(event);
        return;
    }
    switch (event->key()) {
    case Qt::Key_W: case Qt::Key_Plus: showRange(zoomed(range, middle, zoomStep, fullSteps(), fewestShown)); break;
    case Qt::Key_S: case Qt::Key_Minus: showRange(zoomed(range, middle, 1 / zoomStep, fullSteps(), fewestShown)); break;
    case Qt::Key_A: case Qt::Key_Left: showRange(panned(range, -panStep, fullSteps())); break;
    case Qt::Key_D: case Qt::Key_Right: showRange(panned(range, panStep, fullSteps())); break;
    case Qt::Key_F: case Qt::Key_Home: fit(); break;
    default: QWidget::keyPressEvent(event);
    }
}

bool LatencyView::eventFilter(QObject *watched, QEvent *event) {
    if (watched == m_plot && hasContent() && event->type() == QEvent::Wheel) {
        const auto *wheel = static_cast<QWheelEvent *>(event);
        const double about = m_stepRect->axis(QCPAxis::atBottom)->pixelToCoord(wheel->position().x());
        const double factor = std::pow(zoomStep, wheel->angleDelta().y() / 120.0);
        showRange(zoomed(shownSteps(), about, factor, fullSteps(), fewestShown));
        return true;
    }
    if (watched == m_plot && event->type() == QEvent::MouseButtonPress)
        setFocus(Qt::MouseFocusReason);
    return QWidget::eventFilter(watched, event);
}

} // namespace tpscope
