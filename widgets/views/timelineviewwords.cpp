// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timelineview.h"

#include <QComboBox>
#include <QLabel>
#include <QToolTip>
#include <algorithm>
#include <qcustomplot.h>

#include "model/moduletree.h"
#include "plot/timelineplottable.h"

// What the timeline says of its lanes and events, and how it follows what is selected.
namespace tpscope {
namespace {

QString q(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

QString kindWord(LaneKind kind) {
    switch (kind) {
    case LaneKind::Tokens: return TimelineView::tr("tokens");
    case LaneKind::Launches: return TimelineView::tr("launches");
    case LaneKind::Compute: return TimelineView::tr("compute");
    case LaneKind::Collectives: return TimelineView::tr("collectives");
    case LaneKind::Hooks: return TimelineView::tr("hooks");
    }
    return {};
}

} // namespace

QString TimelineView::laneTitle(const LaneOf &lane) const {
    if (lane.lane.continued)
        return {};
    QStringList parts;
    const Side &side = m_sides[lane.side];
    if (!side.word.isEmpty())
        parts << side.word;
    if (m_rankBox->currentData().toInt() == allRanks)
        parts << tr("rank %1").arg(side.trace->ranks[lane.lane.rank].rank);
    parts << kindWord(lane.lane.kind);
    return parts.join(QStringLiteral(" \u00b7 "));
}

void TimelineView::setNote() {
    QStringList notes;
    QStringList sources;
    for (const Side &side : m_sides) {
        const auto source = name(side.trace->source), backend = name(side.trace->backend);
        const QString text = source == backend ? q(source) : tr("%1 (%2)").arg(q(source), q(backend));
        if (!sources.contains(text))
            sources << text;
        if (side.endToEnd && notes.isEmpty())
            notes << tr("no events were kept: steps laid end to end, warm-up left out");
        else if (!side.endToEnd && side.trace->backend == Backend::Transformers && notes.isEmpty())
            notes << tr("this backend times tokens only, on rank 0");
    }
    notes.prepend(tr("times: %1").arg(sources.join(QStringLiteral(", "))));
    const bool marks = std::ranges::any_of(m_plottable->lanes(), [](const TimelinePlottable::Lane &lane) {
        return std::ranges::any_of(lane.spans.spans(), [](const TimelineSpan &span) {
            return span.weight >= TimelinePlottable::markedWeight;
        });
    });
    if (marks)
        notes << tr("\u25be rare: over %1\u00d7 the usual time of its kind").arg(outlierFactor);
    m_note->setText(notes.join(QStringLiteral(" \u00b7 ")));
    m_note->setToolTip(m_note->text());
}

const RunTrace &TimelineView::traceOf(int lane) const {
    return *m_sides[m_keys[static_cast<std::size_t>(lane)].side].trace;
}

const Event *TimelineView::eventAt(int lane, int item) const {
    if (lane < 0 || static_cast<std::size_t>(lane) >= m_keys.size() || item < 0)
        return nullptr;
    const auto &events = traceOf(lane).ranks[m_keys[static_cast<std::size_t>(lane)].rank].events;
    return static_cast<std::size_t>(item) < events.size() ? &events[static_cast<std::size_t>(item)] : nullptr;
}

QString TimelineView::describe(int lane, int item) const {
    const Event *event = eventAt(lane, item);
    if (!event)
        return {};
    const RunTrace &trace = traceOf(lane);
    const LaneKey key = m_keys[static_cast<std::size_t>(lane)];
    const RankTrace &rank = trace.ranks[key.rank];
    QStringList parts;
    if (!m_sides[key.side].word.isEmpty())
        parts << m_sides[key.side].word;
    const QString module = QString::fromStdString(moduleOf(trace, *event));
    parts << (module.isEmpty() ? QString::fromStdString(shortLabel(trace, *event)) : module);
    const QString op = QString::fromStdString(opOf(trace, *event));
    if (!module.isEmpty() && !op.isEmpty())
        parts << op;
    parts << QString::fromStdString(durationText(static_cast<double>(event->duration)))
          << tr("at %1").arg(QString::fromStdString(durationText(static_cast<double>(event->start - originOf(rank)))));
    if (event->bytes > 0)
        parts << QString::fromStdString(bytesText(event->bytes));
    if (event->kind != EventKind::Token && event->kind != EventKind::Phase)
        parts << (event->token < 0 ? tr("prefill") : tr("step %1").arg(event->token));
    parts << tr("rank %1").arg(rank.rank);
    parts << q(name(trace.source));
    return parts.join(QStringLiteral(" \u00b7 "));
}

void TimelineView::onHover(const QPoint &position) {
    const TimelinePlottable::Hit hit = m_plottable->hitAt(position);
    const QString text = describe(hit.lane, hit.item);
    if (text.isEmpty()) {
        QToolTip::hideText();
        return;
    }
    m_details->setText(text);
    QString lines = text;
    QToolTip::showText(m_plot->mapToGlobal(position + QPoint(12, 12)),
                       lines.replace(QStringLiteral(" \u00b7 "), QStringLiteral("\n")), m_plot);
}

void TimelineView::onClick(const QPoint &position) {
    setFocus(Qt::MouseFocusReason);
    const TimelinePlottable::Hit hit = m_plottable->hitAt(position);
    const Event *event = eventAt(hit.lane, hit.item);
    if (!event)
        return;
    m_details->setText(describe(hit.lane, hit.item));
    const std::string module = moduleOf(traceOf(hit.lane), *event);
    if (!module.empty())
        m_selection->selectModule(QString::fromStdString(modulesOfName(module).front()));
}

void TimelineView::followModule(const QString &module) {
    if (module.isEmpty()) {
        m_plottable->setHighlight({});
    } else {
        // Names are resolved once a side; a selected fold ("*") means all its layers.
        const bool fold = module.contains('*');
        std::vector<std::vector<bool>> wanted;
        for (const Side &side : m_sides) {
            std::vector<bool> is;
            for (const std::string &name : side.trace->moduleNames)
                is.push_back(std::ranges::any_of(modulesOfName(name), [&](const std::string &one) {
                    return (fold ? genericName(one) : one) == module.toStdString();
                }));
            wanted.push_back(std::move(is));
        }
        m_plottable->setHighlight([this, wanted](int lane, int item) {
            const Event *event = eventAt(lane, item);
            const auto &is = wanted[m_keys[static_cast<std::size_t>(lane)].side];
            return event && event->module >= 0 && static_cast<std::size_t>(event->module) < is.size() &&
                   is[static_cast<std::size_t>(event->module)];
        });
    }
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

} // namespace tpscope
