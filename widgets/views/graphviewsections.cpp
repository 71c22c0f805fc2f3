// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/graphviewsections.h"

#include <QCoreApplication>
#include <QMap>
#include <algorithm>

#include "graph/launchfolds.h"
#include "style/theme.h"

namespace tpscope {
namespace {

QString tr(const char *text) { return QCoreApplication::translate("GraphView", text); }
QString q(const std::string &text) { return QString::fromStdString(text); }
QString q(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

const PhaseCapture &phaseOf(const GraphCapture &capture, GraphPhase phase) {
    return phase == GraphPhase::Prefill ? capture.prefill : capture.decode;
}

// What stands in a box: the path inside its fold, "layer" for the layer itself.
QString placeWords(const LaunchFold &fold, const std::string &module) {
    if (fold.firstLayer < 0)
        return q(module);
    const std::string inside = fold.prefix + ".*";
    return module.size() > inside.size() ? q(module.substr(inside.size() + 1)) : tr("layer");
}

QString holds(const LaunchStep &step) {
    QStringList labels;
    for (const std::string &label : step.labels)
        labels << q(label);
    return labels.join(QStringLiteral(", "));
}

QString distinctGraphs(const LaunchStep &step) {
    std::vector<int> ids = step.graphs;
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    QStringList words;
    for (const int id : ids)
        words << QString::number(id);
    return words.join(QStringLiteral(", "));
}

GraphItem boxOf(const LaunchFold &fold, const LaunchStep &step) {
    GraphItem item;
    item.title = placeWords(fold, step.module);
    item.body = holds(step);
    item.module = step.module.find('.') == std::string::npos && step.module != "model" ? QString() : q(step.module);
    item.hook = step.hooked;
    item.tip = q(step.program) + '\n' + item.body;
    if (!step.eagerBecause.empty()) {
        item.kind = GraphItem::Kind::Eager;
        item.title += QStringLiteral(" \u00b7 ") + tr("eager");
        item.body = q(step.eagerBecause);
        item.tip += '\n' + tr("runs in eager, without a graph: %1").arg(q(step.eagerBecause));
        return item;
    }
    const QString ids = distinctGraphs(step);
    item.tip += '\n' + (ids.contains(',') ? tr("compiled apart as graphs %1").arg(ids) : tr("graph %1").arg(ids));
    if (ids.contains(','))
        item.title += QStringLiteral(" \u00b7 ") + tr("%1 graphs").arg(ids.count(',') + 1);
    return item;
}

GraphItem breakOf(const GraphCapture &capture, const LaunchStep &step) {
    GraphItem item;
    item.kind = GraphItem::Kind::Break;
    item.module = q(step.endsAt);
    item.title = item.module.section('.', -1);
    item.body = Theme::mark(Meaning::Error) + ' ' + tr("break");
    item.tip = tr("Graph break at the call that leads to %1").arg(item.module);
    if (const auto chain = hookChain(capture, item.module))
        item.tip += '\n' + chain->cause + '\n' +
                    (chain->line > 0 ? tr("rule %1, line %2").arg(chain->rule).arg(chain->line)
                                     : tr("rule %1, inherited").arg(chain->rule));
    return item;
}

GraphGroup groupOf(const GraphCapture &capture, const LaunchFold &fold) {
    GraphGroup group;
    if (fold.count() > 1)
        group.title = tr("layers %1\u2013%2  \u00d7 %3").arg(fold.firstLayer).arg(fold.lastLayer).arg(fold.count());
    else if (fold.firstLayer >= 0)
        group.title = tr("layer %1").arg(fold.firstLayer);
    for (const LaunchStep &step : fold.steps) {
        group.items.push_back(boxOf(fold, step));
        if (!step.endsAt.empty())
            group.items.push_back(breakOf(capture, step));
    }
    return group;
}

// "q_norm, k_norm": the last parts of the modules hooks sit on, in module order, once each.
QString siteWords(const GraphCapture &capture) {
    QStringList words;
    for (const HookSite &site : capture.sites)
        if (const QString last = q(site.name).section('.', -1); !words.contains(last))
            words << last;
    return words.join(QStringLiteral(", "));
}

QString hookNote(const GraphCapture &capture) {
    if (capture.hooks == HookMode::None)
        return tr("no gradient hooks: gradients of replicated parameters are not summed");
    if (capture.sites.empty())
        return tr("this plan places no gradient hooks");
    const auto registered = std::ranges::count_if(capture.sites, &HookSite::registeredUnderNoGrad);
    const QString where = tr("%1 %2 hooks on %3").arg(Theme::mark(Meaning::Hook)).arg(capture.sites.size())
                              .arg(siteWords(capture));
    if (registered == 0)
        return where + QStringLiteral(": ") + tr("none is registered under no_grad, so a decode meets none");
    const auto breaking = std::ranges::count_if(capture.sites, &HookSite::breaksGraph);
    return where + QStringLiteral(": ") +
           (breaking > 0 ? tr("registered in a decode too, and each breaks the graph")
                         : tr("registered in a decode too, without breaking a graph"));
}

// "in eager: Qwen3Model.forward (graph break in a loop), ..."; "" when every frame with operations is compiled.
QString eagerNote(const PhaseCapture &phase) {
    QMap<QString, QStringList> byReason;
    for (const CapturedFrame &frame : phase.frames)
        if (!frame.eagerBecause.empty() && frame.eagerBecause != "no operation in it")
            byReason[q(frame.eagerBecause)] << q(frame.name);
    QStringList notes;
    for (auto it = byReason.cbegin(); it != byReason.cend(); ++it)
        notes << tr("%1 (%2)").arg(it.value().join(QStringLiteral(", ")), it.key());
    return notes.isEmpty() ? QString() : tr("in eager: %1").arg(notes.join(QStringLiteral(", ")));
}

QString number(const GraphNumbers *numbers, int GraphNumbers::*member) {
    return numbers ? QString::number(numbers->*member) : QString();
}

} // namespace

QString genericModule(const QString &module) { return q(genericName(module.toStdString())); }

QString hookWords(HookMode hooks) {
    const QString word = q(name(hooks));
    switch (hooks) {
    case HookMode::ModuleBackward: return tr("%1 (transformers up to 5.21)").arg(word);
    case HookMode::PostAccumulateGrad: return tr("%1 (transformers from 5.22)").arg(word);
    case HookMode::TensorGrad: return tr("%1 hooks").arg(word);
    case HookMode::None: return tr("no hooks");
    }
    return word;
}

GraphSection graphSection(const GraphCapture &capture, GraphPhase phase, bool before) {
    const PhaseCapture &shown = phaseOf(capture, phase);
    const Meaning side = before ? Meaning::Before : Meaning::After;
    GraphSection section;
    section.mark = Theme::mark(side);
    section.title = Theme::word(side) + QStringLiteral(": ") + hookWords(capture.hooks);
    section.counts = tr("%1 graphs, %2 launches (predicted)").arg(shown.graphs).arg(shown.launches);
    if (shown.launches == 1)
        section.counts = tr("1 graph, 1 launch (predicted)");
    section.notes.push_back(hookNote(capture));
    if (const QString note = eagerNote(shown); !note.isEmpty())
        section.notes.push_back(note);
    for (const LaunchFold &fold : foldLaunches(shown, capture.sites))
        section.groups.push_back(groupOf(capture, fold));
    if (shown.launches == 1 && section.groups.size() == 1 && section.groups.front().items.size() == 1) {
        GraphItem &only = section.groups.front().items.front();
        only.whole = true;
        only.title = tr("one graph: the whole forward of %1").arg(only.title);
    }
    return section;
}

const GraphNumbers *measuredGraphs(const RunTrace *trace, HookMode hooks) {
    return trace && trace->hooks == hooks && trace->graphs && trace->graphs->source == Source::Measured
               ? &*trace->graphs
               : nullptr;
}

std::vector<CounterTile> graphTiles(const GraphCapture *before, const GraphCapture *after,
                                    const GraphNumbers *measuredBefore, const GraphNumbers *measuredAfter) {
    const auto tile = [&](const QString &caption, auto predicted, int GraphNumbers::*measured) {
        CounterTile made{caption,
                         beforeAfter(before ? QString::number(predicted(*before)) : QString(),
                                     after ? QString::number(predicted(*after)) : QString()),
                         tr("predicted"),
                         {}};
        if (measuredBefore || measuredAfter)
            made.second = tr("measured %1").arg(beforeAfter(number(measuredBefore, measured),
                                                            number(measuredAfter, measured)));
        return made;
    };
    return {tile(tr("graph breaks"), [](const GraphCapture &c) { return c.graphBreaks; }, &GraphNumbers::graphBreaks),
            tile(tr("launches a token"), [](const GraphCapture &c) { return c.decode.launches; },
                 &GraphNumbers::decodeLaunches),
            tile(tr("launches, prefill"), [](const GraphCapture &c) { return c.prefill.launches; },
                 &GraphNumbers::prefillLaunches),
            tile(tr("graphs, decode"), [](const GraphCapture &c) { return c.decode.graphs; },
                 &GraphNumbers::decodeGraphs)};
}

std::optional<HookChain> hookChain(const GraphCapture &capture, const QString &module) {
    const QString wanted = genericModule(module);
    const auto site = std::ranges::find_if(
        capture.sites, [&](const HookSite &one) { return genericModule(q(one.name)) == wanted; });
    if (wanted.isEmpty() || site == capture.sites.end())
        return std::nullopt;
    QStringList parameters;
    for (const std::string &parameter : site->parameters)
        parameters << genericModule(q(parameter));
    HookChain chain{wanted, parameters.join(QStringLiteral(", ")), q(site->rule), site->span.line, site->breaksGraph,
                    site->registeredUnderNoGrad, {}};
    const auto entry = std::ranges::find(capture.breaks, wanted.toStdString(), &GraphBreak::module);
    if (entry != capture.breaks.end())
        chain.cause = q(entry->cause);
    return chain;
}

QString hookedModuleAtLine(const GraphCapture &capture, int line) {
    const auto site = std::ranges::find_if(
        capture.sites, [line](const HookSite &one) { return line > 0 && one.span.line == line; });
    return site == capture.sites.end() ? QString() : genericModule(q(site->name));
}

} // namespace tpscope
