// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/planexport.h"

#include <QtGlobal>

#include <algorithm>
#include <array>

#include "plan/planwriter.h"
#include "report/comparisonhtml.h"
#include "report/comparisonmarkdown.h"
#include "report/planhtml.h"
#include "report/planmarkdown.h"

namespace tpscope {
namespace {

using Of = ExportFormat::Of;

constexpr std::array formats{
    ExportFormat{"yaml", Of::Plan, QT_TRANSLATE_NOOP("ExportFormat", "Plan as YAML"),
                 QT_TRANSLATE_NOOP("ExportFormat", "Your rules in TPScope's form"), ".yaml"},
    ExportFormat{"json", Of::Plan, QT_TRANSLATE_NOOP("ExportFormat", "Plan as JSON"),
                 QT_TRANSLATE_NOOP("ExportFormat", "For DistributedConfig of transformers"), ".json"},
    ExportFormat{"python", Of::Plan, QT_TRANSLATE_NOOP("ExportFormat", "Plan as Python"),
                 QT_TRANSLATE_NOOP("ExportFormat", "A script for torchrun that loads the model with this plan"), ".py"},
    ExportFormat{"markdown", Of::Plan, QT_TRANSLATE_NOOP("ExportFormat", "Plan report as Markdown"),
                 QT_TRANSLATE_NOOP("ExportFormat", "Outcome, findings, sharding, hooks: for a review"), ".md"},
    ExportFormat{"html", Of::Plan, QT_TRANSLATE_NOOP("ExportFormat", "Plan report as HTML"),
                 QT_TRANSLATE_NOOP("ExportFormat", "The same as one self-contained page"), ".html"},
    ExportFormat{"comparison-markdown", Of::Comparison, QT_TRANSLATE_NOOP("ExportFormat", "Comparison as Markdown"),
                 QT_TRANSLATE_NOOP("ExportFormat", "Verdict and numbers with their sources"), ".md"},
    ExportFormat{"comparison-html", Of::Comparison, QT_TRANSLATE_NOOP("ExportFormat", "Comparison as HTML"),
                 QT_TRANSLATE_NOOP("ExportFormat", "The same as one self-contained page"), ".html"},
};

std::string planText(std::string_view id, const PlanAnalysis &analysis, const QString &modelArgument) {
    if (id == "markdown")
        return planMarkdown(analysis);
    if (id == "html")
        return planHtml(analysis);
    PlanToWrite plan = ownRules(analysis.workspace->model, analysis.choice, analysis.plan);
    plan.tpSize = analysis.tp;
    if (id == "json")
        return toJson(plan);
    return id == "python" ? toPython(plan, {modelArgument.toStdString(), "run_plan.py"}) : toYaml(plan);
}

} // namespace

std::span<const ExportFormat> exportFormats() { return formats; }

const ExportFormat *findExportFormat(const QString &id) {
    const auto found =
        std::ranges::find_if(formats, [&](const ExportFormat &format) { return id == QLatin1String(format.id); });
    return found == formats.end() ? nullptr : &*found;
}

QString exportText(const ExportFormat &format, const PlanAnalysis *analysis, const Comparison *comparison,
                   const QString &modelArgument) {
    std::string text;
    if (format.of == Of::Comparison && comparison)
        text = std::string_view(format.id) == "comparison-html" ? comparisonHtml(*comparison)
                                                                : comparisonMarkdown(*comparison);
    if (format.of == Of::Plan && analysis && !analysis->unreadable)
        text = planText(format.id, *analysis, modelArgument);
    if (!text.empty() && !text.ends_with('\n'))
        text += '\n';
    return QString::fromStdString(text);
}

} // namespace tpscope
