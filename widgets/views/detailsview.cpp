// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/detailsview.h"

#include <QApplication>
#include <algorithm>

#include "base/text.h"
#include "models/planinsight.h"
#include "models/planworkbench.h"
#include "models/selection.h"
#include "style/theme.h"

namespace tpscope {
namespace {

QString tr(const char *text) { return DetailsView::tr(text); }
QString html(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())).toHtmlEscaped();
}
QString bytesText(std::int64_t bytes) {
    return QString::fromStdString(formatBytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0))));
}
// Without the line break at its end: a heading brings its own distance.
QString trimmed(QString text) {
    if (text.endsWith(QLatin1String("<br>")))
        text.chop(4);
    return text;
}
QString heading(const QString &text) {
    return QStringLiteral("<p style='margin:8px 0 2px 0; color:%1'>%2</p>").arg(Theme::subtleText().name(), text);
}
// A name that may be broken behind its dots.
QString breakable(const QString &name) {
    return name.toHtmlEscaped()
        .replace(QLatin1Char('.'), QStringLiteral(".\u200B"))
        .replace(QLatin1Char('_'), QStringLiteral("_\u200B"));
}

QString parametersHtml(const PlanAnalysis &analysis, const Module &module) {
    QString out;
    for (const Parameter &parameter : module.parameters) {
        const ParameterShard *shard = analysis.shards.find(module.name + "." + parameter.name);
        out += QStringLiteral("<b>%1</b> %2<br>").arg(html(parameter.name), shapeText(parameter.shape));
        if (!shard)
            continue;
        out += placementText(*shard) + QStringLiteral("<br>");
        for (std::size_t rank = 0; rank < std::min<std::size_t>(shard->localShapes.size(), 8); ++rank)
            out += tr("rank %1: %2, %3<br>")
                       .arg(rank)
                       .arg(shapeText(shard->localShapes[rank]), bytesText(shard->bytes[rank]));
        if (shard->localShapes.size() > 8)
            out += tr("and %1 more ranks<br>").arg(shard->localShapes.size() - 8);
    }
    return out.isEmpty() ? QString() : heading(tr("Parameters")) + trimmed(out);
}

QString ruleHtml(const EffectiveRule *rule) {
    if (!rule)
        return heading(tr("Rule")) + tr("none: replicated on each rank, without collectives");
    QString out =
        heading(tr("Rule")) + QStringLiteral("<b>%1</b><br>").arg(breakable(QString::fromStdString(rule->rule.style)));
    out += rule->rule.keySpan.valid() && rule->rule.origin == RuleOrigin::File
               ? tr("<a href='line:%1'>line %1 of the plan</a>").arg(rule->rule.keySpan.line)
               : tr("inherited from %1").arg(originText(rule->rule.origin));
    if (!rule->style)
        return out;
    out += QStringLiteral("<br>") + html(rule->style->summary);
    return out + heading(tr("Collectives (predicted)")) + collectivesOf(*rule->style).join(QStringLiteral("<br>"));
}

QString hookHtml(const PlanAnalysis &analysis, const std::string &generic) {
    const auto here = [&](const std::optional<GraphCapture> &capture) -> const HookSite * {
        if (!capture)
            return nullptr;
        for (const HookSite &site : capture->sites)
            if (genericName(site.name) == generic)
                return &site;
        return nullptr;
    };
    const HookSite *legacy = here(analysis.withModuleBackward);
    const HookSite *chosen = here(analysis.withChosenHooks);
    if (!legacy && !chosen)
        return {};
    QString out = heading(tr("Hooks (predicted)"));
    if (legacy)
        out += Theme::mark(Meaning::Hook) + QLatin1Char(' ') +
               (legacy->breaksGraph ? tr("module-backward: breaks the graph here") : tr("module-backward: no break")) +
               QStringLiteral("<br>");
    if (chosen)
        out += Theme::mark(Meaning::Hook) + QLatin1Char(' ') +
               tr("%1: %2").arg(html(name(analysis.withChosenHooks->hooks)),
                                chosen->breaksGraph ? tr("breaks the graph here") : tr("no graph break"));
    return out;
}

QString findingsHtml(const PlanAnalysis &analysis, const std::string &generic) {
    QString out;
    for (const Diagnostic &finding : findingsOf(analysis)) {
        const bool about = finding.rule == generic || std::ranges::any_of(finding.modules, [&](const std::string &m) {
                               return genericName(m) == generic;
                           });
        if (about)
            out += QStringLiteral("<p style='margin:0 0 4px 0'><b>%1 %2</b> %3</p>")
                       .arg(Theme::mark(finding.severity == Severity::Error     ? Meaning::Error
                                        : finding.severity == Severity::Warning ? Meaning::Warning
                                                                                : Meaning::Info),
                            html(finding.code), html(finding.message));
    }
    return out.isEmpty() ? QString() : heading(tr("Findings")) + out;
}

QString moduleHtml(const PlanAnalysis &analysis, ModuleIndex index) {
    const Module &module = analysis.workspace->model.tree.at(index);
    const std::string generic = genericName(module.name);
    const QString shown =
        module.name.empty() ? html(analysis.workspace->model.className) : breakable(QString::fromStdString(generic));
    return QStringLiteral("<p style='margin:0'><b>%1</b><br>%2</p>").arg(shown, html(module.className)) +
           ruleHtml(analysis.plan.ruleOfModule(index)) + parametersHtml(analysis, module) +
           hookHtml(analysis, generic) + findingsHtml(analysis, generic);
}

QString planHtml(const PlanAnalysis &analysis) {
    QString out = QStringLiteral("<p style='margin:0'><b>%1</b></p>").arg(html(analysis.workspace->model.className));
    out += heading(tr("Outcome (by rule)")) + outcomeText(analysis);
    out += heading(tr("Bytes on each rank"));
    for (std::size_t rank = 0; rank < std::min<std::size_t>(analysis.lint.bytesPerRank.size(), 8); ++rank)
        out += tr("rank %1: %2<br>").arg(rank).arg(bytesText(analysis.lint.bytesPerRank[rank]));
    out = trimmed(out);
    if (analysis.withModuleBackward && analysis.withChosenHooks)
        out += heading(tr("Graph breaks (predicted)")) + tr("module-backward: %1<br>%2: %3")
                                                             .arg(analysis.withModuleBackward->graphBreaks)
                                                             .arg(html(name(analysis.withChosenHooks->hooks)))
                                                             .arg(analysis.withChosenHooks->graphBreaks);
    return out + QStringLiteral("<p style='color:%1'>%2</p>")
                     .arg(Theme::subtleText().name(), tr("Select a module to see its parameters, rule and hooks."));
}

} // namespace

DetailsView::DetailsView(PlanWorkbench *workbench, Selection *selection, QWidget *parent)
    : QTextBrowser(parent), m_workbench(workbench), m_selection(selection) {
    setOpenLinks(false);
    setFrameShape(QFrame::NoFrame);
    document()->setDocumentMargin(8);
    setAccessibleName(tr("Details"));
    connect(this, &QTextBrowser::anchorClicked, this, [this](const QUrl &url) {
        if (url.scheme() == QLatin1String("line"))
            m_selection->selectLine(url.path().toInt(), 1);
    });
    connect(workbench, &PlanWorkbench::analysisChanged, this, &DetailsView::refresh);
    connect(selection, &Selection::moduleSelected, this, &DetailsView::refresh);
}

void DetailsView::refresh() {
    if (const auto newest = m_workbench->analysis(); newest && !newest->unreadable)
        m_shown = newest;
    const auto analysis = m_shown;
    if (!analysis)
        return;
    const auto index = m_selection->module().isEmpty()
                           ? std::optional<ModuleIndex>()
                           : moduleByName(analysis->workspace->model.tree, m_selection->module());
    const QString text = index ? moduleHtml(*analysis, *index) : planHtml(*analysis);
    setHtml(QStringLiteral("<body style='color:%1'>%2</body>")
                .arg(QApplication::palette().color(QPalette::Text).name(), text));
}

} // namespace tpscope
