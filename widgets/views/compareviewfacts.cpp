// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/compareviewfacts.h"

#include <QCoreApplication>
#include <cmath>
#include <map>

#include "plan/resolvedplan.h"
#include "report/comparisonfacts.h"

namespace tpscope {
namespace {

QString tr(const char *text) { return QCoreApplication::translate("CompareView", text); }
QString q(const std::string &text) { return QString::fromStdString(text); }
QString q(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

QString ms(double value) { return q(milliseconds(value)); }

// "6.80 ms less a token (-38.1 %)"
QString change(const Comparison &comparison) {
    const QString percent = QStringLiteral("%1%2 %").arg(comparison.deltaPercent > 0 ? "+" : "")
                                .arg(comparison.deltaPercent, 0, 'f', 1);
    return comparison.deltaMs < 0 ? tr("%1 less a token (%2)").arg(ms(-comparison.deltaMs), percent)
                                  : tr("%1 more a token (%2)").arg(ms(comparison.deltaMs), percent);
}

QString sources(Source before, Source after) {
    const QString left = q(name(before)), right = q(name(after));
    return left == right ? left : left + QStringLiteral(" / ") + right;
}

QString median(const Summary &summary) { return summary.n ? QString::number(summary.median, 'f', 2) : QString(); }

QString count(const SourcedCount &counted) { return counted.value ? QString::number(*counted.value) : QString(); }

QString planName(const RunTrace &trace) { return q(trace.plan).section('/', -1); }

// Pattern to style: what is in force on a side.
std::map<std::string, std::string> rulesOf(const RunTrace &trace, const Workspace *workspace) {
    PlanChoice choice;
    if (trace.plan == "none")
        choice.kind = PlanChoice::Kind::None;
    if (!trace.planText.empty()) {
        auto document = parsePlan(trace.planText, trace.plan);
        if (!document)
            return {};
        choice.kind = PlanChoice::Kind::Document;
        choice.document = std::move(*document);
    }
    std::map<std::string, std::string> rules;
    if (workspace) {
        const ResolvedPlan plan = resolvePlan(workspace->model, choice, workspace->builtinOrNull(), trace.tp);
        for (const EffectiveRule &rule : plan.rules)
            rules[rule.rule.key] = rule.rule.style;
    } else if (choice.document) {
        for (const PlanRule &rule : choice.document->rules)
            rules[rule.key] = rule.style;
    }
    return rules;
}

} // namespace

VerdictWords verdictWords(const Comparison &comparison) {
    switch (comparison.verdict) {
    case Verdict::Faster:
        return {QStringLiteral("\u25bc"), tr("Faster: %1").arg(change(comparison)),
                tr("The 95 % interval of the difference lies below zero.")};
    case Verdict::Slower:
        return {QStringLiteral("\u25b2"), tr("Slower: %1").arg(change(comparison)),
                tr("The 95 % interval of the difference lies above zero.")};
    case Verdict::NoClearDifference:
        return {QStringLiteral("\u2248"), tr("No clear difference in time a token"),
                comparison.ci95Ms && ((*comparison.ci95Ms)[0] > 0 || (*comparison.ci95Ms)[1] < 0)
                    ? tr("The 95 % interval excludes zero, but the rank-sum test is not clear (p = %1).")
                          .arg(comparison.pValue.value_or(1.0), 0, 'f', 3)
                    : tr("The 95 % interval of the difference holds zero.")};
    case Verdict::TooFewSamples:
        return {QStringLiteral("?"), tr("Too few samples for a verdict"),
                tr("A side needs at least %1 measured steps.").arg(fewestSamples)};
    case Verdict::NotMeasured: break;
    }
    if (comparison.beforeMs.n == 0 || comparison.afterMs.n == 0)
        return {QStringLiteral("?"), tr("Not measured: a side has no token times"), {}};
    const QString source = sources(comparison.before.source, comparison.after.source);
    return {QStringLiteral("?"), tr("Not measured; %1: %2").arg(source, change(comparison)),
            tr("These times come from a model of the hardware, so there is no interval and no verdict.")};
}

std::vector<CounterTile> comparisonTiles(const Comparison &comparison) {
    const auto counted = [&](const QString &caption, SourcedCount (*of)(const RunTrace &),
                             int GraphNumbers::*predicted) {
        const SourcedCount before = of(comparison.before), after = of(comparison.after);
        CounterTile tile{caption, beforeAfter(count(before), count(after)), sources(before.source, after.source), {}};
        const auto &left = comparison.before.predictedGraphs, &right = comparison.after.predictedGraphs;
        if (left && right)
            tile.second = tr("predicted %1").arg(beforeAfter(QString::number((*left).*predicted),
                                                             QString::number((*right).*predicted)));
        return tile;
    };
    const QString times = sources(comparison.before.source, comparison.after.source);
    std::vector<CounterTile> tiles{
        counted(tr("graph breaks"), graphBreaksOf, &GraphNumbers::graphBreaks),
        counted(tr("launches a token"), launchesOf, &GraphNumbers::decodeLaunches),
        {tr("ms a token, median"), beforeAfter(median(comparison.beforeMs), median(comparison.afterMs)), times,
         tr("%1 and %2 samples").arg(comparison.beforeMs.n).arg(comparison.afterMs.n)}};
    const QString outputs = !comparison.outputsEqual ? tr("not checked")
                            : *comparison.outputsEqual ? tr("equal") : tr("different");
    tiles.push_back({tr("output ids"), outputs,
                     comparison.outputsEqual ? tr("measured") : tr("no ids were computed"),
                     comparison.maxAbsLogitError
                         ? tr("largest logit difference %1").arg(*comparison.maxAbsLogitError, 0, 'g', 2)
                         : QString()});
    return tiles;
}

PlanDifference planDifference(const Comparison &comparison, const Workspace *workspace, const QString &modelArgument) {
    const RunTrace &before = comparison.before, &after = comparison.after;
    if (before.plan.empty() || after.plan.empty())
        return {tr("The recording does not say which plans ran."), {}};
    if (before.plan == after.plan && before.planText == after.planText)
        return {tr("Both sides ran the same plan: %1.").arg(planName(before)), {}};
    if (!before.planText.empty() && before.planText == after.planText)
        return {tr("Both sides ran the same plan text, as %1 and %2.").arg(planName(before), planName(after)), {}};
    const bool thisModel = workspace && q(before.model) == modelArgument && q(after.model) == modelArgument;
    const Workspace *used = thisModel ? workspace : nullptr;
    const auto left = rulesOf(before, used), right = rulesOf(after, used);
    PlanDifference difference;
    const auto styleIn = [](const std::map<std::string, std::string> &rules, const std::string &key) {
        const auto found = rules.find(key);
        return found == rules.end() ? QString() : q(found->second);
    };
    for (const auto &[key, style] : left)
        if (styleIn(right, key) != q(style))
            difference.rules.push_back({q(key), q(style), styleIn(right, key)});
    for (const auto &[key, style] : right)
        if (!left.contains(key))
            difference.rules.push_back({q(key), {}, q(style)});
    difference.summary = difference.rules.empty()
                             ? tr("The plans %1 and %2 differ as texts; their rules are the same.")
                             : tr("Plan %1 against %2: %3 rules differ.");
    difference.summary = difference.summary.arg(planName(before), planName(after));
    if (!difference.rules.empty())
        difference.summary = difference.summary.arg(difference.rules.size());
    if (!used && (before.planText.empty() || after.planText.empty()))
        difference.summary += ' ' + tr("Rules that come from the model are not known here: open %1 to see them.")
                                        .arg(q(before.model));
    return difference;
}

} // namespace tpscope
