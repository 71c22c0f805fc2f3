// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/graphview.h"

#include <QButtonGroup>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QVBoxLayout>

#include "plot/graphcanvas.h"
#include "plot/plotstyle.h"
#include "style/theme.h"

namespace tpscope {

GraphView::GraphView(PlanWorkbench *workbench, Selection *selection, RunStore *store, QWidget *parent)
    : QWidget(parent), m_workbench(workbench), m_selection(selection), m_store(store) {
    buildLayout();
    connect(m_workbench, &PlanWorkbench::analysisChanged, this, &GraphView::refresh);
    connect(m_workbench, &PlanWorkbench::modelOpened, this, &GraphView::refresh);
    connect(m_store, &RunStore::currentChanged, this, &GraphView::refreshTiles);
    connect(m_store, &RunStore::entryChanged, this, &GraphView::refreshTiles);
    connect(m_selection, &Selection::moduleSelected, this, &GraphView::followModule);
    connect(m_selection, &Selection::lineSelected, this, &GraphView::followLine);
    connect(m_canvas, &GraphCanvas::chosen, this, &GraphView::onChosen);
    connect(m_canvas, &GraphCanvas::currentMoved, this, [this](const QRect &rect) {
        m_scroll->ensureVisible(rect.center().x(), rect.center().y(), rect.width() / 2 + 12, rect.height() / 2 + 12);
    });
    refresh();
}

void GraphView::buildLayout() {
    m_bar = new QWidget;
    auto *column = new QVBoxLayout(m_bar);
    column->setContentsMargins(8, 6, 8, 8);
    auto *bar = new QHBoxLayout;
    m_phases = new QButtonGroup(this);
    const auto phaseButton = [&](const QString &text, GraphPhase phase) {
        auto *button = new QPushButton(text);
        button->setCheckable(true);
        button->setChecked(phase == m_phase);
        m_phases->addButton(button, static_cast<int>(phase));
        bar->addWidget(button);
    };
    phaseButton(tr("&Prefill"), GraphPhase::Prefill);
    phaseButton(tr("&Decode step"), GraphPhase::Decode);
    connect(m_phases, &QButtonGroup::idClicked, this, [this](int id) { setPhase(static_cast<GraphPhase>(id)); });
    m_subject = new QLabel;
    m_subject->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    bar->addSpacing(8);
    bar->addWidget(m_subject, 1);
    column->addLayout(bar);
    m_tiles = new CounterTiles;
    column->addWidget(m_tiles);
    m_canvas = new GraphCanvas;
    setFocusProxy(m_canvas);
    m_scroll = new QScrollArea;
    m_scroll->setFrameShape(QFrame::NoFrame);
    m_scroll->setWidgetResizable(true);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setFocusPolicy(Qt::NoFocus);
    m_scroll->setWidget(m_canvas);
    m_details = new QLabel;
    m_details->setContentsMargins(8, 4, 8, 6);
    m_details->setWordWrap(true);
    m_details->setTextFormat(Qt::RichText);
    connect(m_details, &QLabel::linkActivated, this, &GraphView::onLink);
    m_empty = new QLabel;
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setWordWrap(true);
    m_empty->setMargin(24);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_bar);
    layout->addWidget(m_scroll, 1);
    layout->addWidget(m_details);
    layout->addWidget(m_empty, 1);
}

const GraphCapture *GraphView::captureOf(int section) const {
    if (!m_analysis)
        return nullptr;
    const auto &capture = section == 0 ? m_analysis->withModuleBackward : m_analysis->withChosenHooks;
    return capture ? &*capture : nullptr;
}

bool GraphView::hasContent() const { return captureOf(0) || captureOf(1); }

QString GraphView::emptyReason() const {
    if (!m_workbench->workspace())
        return tr("Open a model to see the graphs torch.compile makes of it.");
    if (!m_analysis)
        return tr("Looking at the plan ...");
    if (m_analysis->unreadable)
        return tr("The plan cannot be read, so no graph is predicted. Its syntax error stands in Findings:\n%1")
            .arg(QString::fromStdString(m_analysis->unreadable->message));
    if (!m_analysis->workspace->model.flowKnown())
        return tr("The forward of this model's family is not described, so graphs are not predicted (not checked).\n"
                  "A run with the transformers backend measures them.");
    return tr("With this plan the model does not run, so there is no graph to predict.\n"
              "Findings say why; mend the plan and the graphs appear here.");
}

void GraphView::refresh() {
    m_analysis = m_workbench->analysis();
    std::vector<GraphSection> sections;
    for (int i = 0; i < 2; ++i)
        if (const GraphCapture *capture = captureOf(i))
            sections.push_back(graphSection(*capture, m_phase, i == 0));
    const bool some = !sections.empty();
    m_canvas->setSections(std::move(sections));
    for (QWidget *widget : {m_bar, static_cast<QWidget *>(m_scroll), static_cast<QWidget *>(m_details)})
        widget->setVisible(some);
    m_empty->setVisible(!some);
    if (!some)
        m_empty->setText(emptyReason());
    m_details->setText(tr("Click a break or a hook to find its module and its line of the plan."));
    refreshTiles();
    followModule(m_selection->module());
    for (QAbstractButton *button : m_phases->buttons()) {
        QFont weight = font();
        weight.setBold(button->isChecked()); // a pressed button hardly differs from the other in the dark
        button->setFont(weight);
    }
}

void GraphView::refreshTiles() {
    const RunEntry *entry = m_store->entry(m_store->current());
    const RunTrace *before = entry && entry->comparison ? &entry->comparison->before : nullptr;
    const RunTrace *single = entry ? entry->trace.get() : nullptr;
    const RunTrace *after = entry && entry->comparison ? &entry->comparison->after : single;
    const HookMode chosen = captureOf(1) ? captureOf(1)->hooks : m_workbench->hooks();
    const GraphNumbers *measuredBefore = measuredGraphs(before, HookMode::ModuleBackward);
    if (!measuredBefore && !before)
        measuredBefore = measuredGraphs(after, HookMode::ModuleBackward);
    const GraphNumbers *measuredAfter = measuredGraphs(after, chosen);
    m_tiles->setTiles(graphTiles(captureOf(0), captureOf(1), measuredBefore, measuredAfter));
    // A run of another model is shown all the same, and named: whoever looks decides whether it compares.
    const RunTrace *measured = measuredAfter ? after : before;
    QString subject = m_analysis ? tr("predicted for %1, tp %2").arg(m_workbench->modelArgument()).arg(m_analysis->tp)
                                 : QString();
    if (measuredBefore || measuredAfter)
        subject += QStringLiteral(" \u00b7 ") +
                   tr("measured by \u201c%1\u201d%2")
                       .arg(entry->title, measured && !measured->model.empty()
                                              ? tr(", %1, tp %2").arg(QString::fromStdString(measured->model))
                                                    .arg(measured->tp)
                                              : QString());
    m_subject->setText(subject);
    m_subject->setToolTip(subject);
}

void GraphView::setPhase(GraphPhase phase) {
    m_phases->button(static_cast<int>(phase))->setChecked(true);
    if (phase == m_phase)
        return;
    m_phase = phase;
    refresh();
}

void GraphView::onChosen(int section, const GraphItem &item) {
    if (item.module.isEmpty())
        return;
    const GraphCapture *capture = captureOf(captureOf(0) ? section : 1);
    const auto chain = capture ? hookChain(*capture, item.module) : std::nullopt;
    m_selection->selectModule(item.module);
    m_canvas->highlight(item.module);
    if (chain && chain->line > 0)
        m_selection->selectLine(chain->line, 1);
    if (capture)
        tell(*capture, item.module);
}

void GraphView::tell(const GraphCapture &capture, const QString &module) {
    const auto chain = hookChain(capture, module);
    if (!chain) {
        m_details->setText(tr("%1: no hook here").arg(module.toHtmlEscaped()));
        return;
    }
    QString line = tr("inherited, not in the file");
    if (chain->line > 0)
        line = QStringLiteral("<a href=\"line:%1\">%2</a>").arg(chain->line).arg(tr("line %1").arg(chain->line));
    QString parameters = chain->parameters.toHtmlEscaped();
    if (!parameters.isEmpty())
        parameters.prepend(QStringLiteral(" \u2192 "));
    QString text = tr("%1 hook on <a href=\"module:%2\">%2</a>%3 \u2192 rule <b>%4</b>, %5.")
                       .arg(Theme::mark(Meaning::Hook), chain->module.toHtmlEscaped(),
                            parameters, chain->rule.toHtmlEscaped(), line);
    if (chain->breaks)
        text = Theme::mark(Meaning::Error) + ' ' + tr("graph break") + QStringLiteral(" \u2192 ") + text + ' ' +
               tr("Dynamo: \u201c%1\u201d").arg(chain->cause.toHtmlEscaped());
    else if (!chain->registered)
        text += ' ' + tr("It sits on the parameter only while gradients are needed: a decode does not meet it.");
    m_details->setText(text);
}

void GraphView::onLink(const QString &link) {
    if (link.startsWith(QLatin1String("line:")))
        m_selection->selectLine(link.mid(5).toInt(), 1);
    else
        m_selection->selectModule(link.mid(7));
}

void GraphView::followModule(const QString &module) {
    const QString wanted = genericModule(module);
    QRect where = m_canvas->highlight(wanted);
    if (where.isNull())
        where = m_canvas->highlight(module);
    if (wanted.isEmpty())
        return;
    if (!where.isNull())
        m_scroll->ensureVisible(where.center().x(), where.center().y(), where.width() / 2, where.height() / 2 + 12);
    for (int i = 0; i < 2; ++i)
        if (const GraphCapture *capture = captureOf(i); capture && hookChain(*capture, wanted)) {
            tell(*capture, wanted);
            return;
        }
}

void GraphView::followLine(int line) {
    for (int i = 0; i < 2; ++i)
        if (const GraphCapture *capture = captureOf(i))
            if (const QString module = hookedModuleAtLine(*capture, line); !module.isEmpty()) {
                followModule(module);
                return;
            }
}

QString GraphView::details() const { return m_details->text(); }

bool GraphView::savePng(const QString &file, double scale) {
    return hasContent() && saveWidgetPng(*m_canvas, file, scale);
}

void GraphView::changeEvent(QEvent *event) {
    QWidget::changeEvent(event);
    if (m_canvas && event->type() == QEvent::PaletteChange)
        m_canvas->update();
}

} // namespace tpscope
