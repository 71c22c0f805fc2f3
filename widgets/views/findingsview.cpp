// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/findingsview.h"

#include <QCheckBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QTableView>
#include <QVBoxLayout>

#include "delegates/moduledelegate.h"
#include "models/findingsmodel.h"
#include "models/planinsight.h"
#include "models/planworkbench.h"
#include "models/selection.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr int mostLinesOfARow = 3;

QString counted(int count, const QString &one, const QString &many) { return count == 1 ? one : many.arg(count); }

int countOf(const std::vector<Diagnostic> &findings, Severity severity) {
    return static_cast<int>(std::ranges::count(findings, severity, &Diagnostic::severity));
}

} // namespace

FindingsView::FindingsView(PlanWorkbench *workbench, Selection *selection, QWidget *parent)
    : QWidget(parent), m_workbench(workbench), m_selection(selection), m_model(new FindingsModel(this)),
      m_summary(new QLabel), m_training(new QCheckBox(tr("Check training too"))), m_table(new QTableView) {
    m_training->setToolTip(tr("Also check the gradients of a training step, not only the forward"));
    auto *line = new QHBoxLayout;
    line->setContentsMargins(8, 2, 8, 2);
    line->addWidget(m_summary, 1);
    line->addWidget(m_training);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(line);
    layout->addWidget(m_table, 1);

    m_table->setModel(m_model);
    m_table->setItemDelegateForColumn(FindingsModel::SeverityColumn,
                                      new SeverityDelegate(FindingsModel::SeverityRole, m_table));
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setSelectionMode(QAbstractItemView::SingleSelection);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setShowGrid(false);
    m_table->setAlternatingRowColors(true);
    m_table->setFrameShape(QFrame::NoFrame);
    m_table->setWordWrap(true);
    m_table->setAccessibleName(tr("Findings"));
    m_table->verticalHeader()->hide();
    m_table->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    QHeaderView *header = m_table->horizontalHeader();
    header->setHighlightSections(false);
    header->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    header->setSectionResizeMode(FindingsModel::MessageColumn, QHeaderView::Stretch);
    const int widths[] = {88, 60, 72, 0, 250};
    for (int column = 0; column < 5; ++column)
        if (column != FindingsModel::MessageColumn)
            m_table->setColumnWidth(column, widths[column]);

    connect(m_table, &QTableView::clicked, this, &FindingsView::goTo);
    connect(m_table, &QTableView::activated, this, &FindingsView::goTo);
    connect(m_table, &QTableView::doubleClicked, this, [this](const QModelIndex &index) {
        const Diagnostic *finding = m_model->rowAt(index);
        if (finding && finding->fix && !finding->fix->edits.empty())
            emit fixChosen(*finding);
    });
    connect(m_training, &QCheckBox::toggled, this, [this](bool on) { m_workbench->setTraining(on, 1); });
    connect(workbench, &PlanWorkbench::analysisChanged, this, &FindingsView::showAnalysis);
    showAnalysis();
}

void FindingsView::showAnalysis() {
    const auto analysis = m_workbench->analysis();
    m_model->setRows(analysis ? findingsOf(*analysis) : std::vector<Diagnostic>{});
    fitRows();
    QString summary = tr("Open a model to check a plan.");
    if (analysis && m_model->rowCount() == 0)
        summary = tr("%1 Nothing found: outcome %2, by rule; nothing was executed.")
                      .arg(Theme::mark(Meaning::Good), outcomeText(*analysis));
    else if (analysis && analysis->unreadable)
        summary = tr("%1 The plan cannot be read; the model shows the last plan that could.")
                      .arg(Theme::mark(Meaning::Error));
    else if (analysis)
        summary = tr("Outcome %1, by rule. Click to go there; double-click or Alt+Enter applies a fix.")
                      .arg(outcomeText(*analysis));
    m_summary->setText(summary);
    emit titleChanged(title());
}

QString FindingsView::title() const {
    const int errors = countOf(m_model->rows(), Severity::Error);
    const int warnings = countOf(m_model->rows(), Severity::Warning);
    const int infos = countOf(m_model->rows(), Severity::Info);
    QStringList parts;
    if (errors > 0)
        parts << counted(errors, tr("1 error"), tr("%1 errors"));
    if (warnings > 0)
        parts << counted(warnings, tr("1 warning"), tr("%1 warnings"));
    if (infos > 0)
        parts << counted(infos, tr("1 note"), tr("%1 notes"));
    return parts.isEmpty() ? tr("Findings") : tr("Findings (%1)").arg(parts.join(QStringLiteral(", ")));
}

void FindingsView::setTraining(bool training) { m_training->setChecked(training); }

void FindingsView::goTo(const QModelIndex &index) {
    const Diagnostic *finding = m_model->rowAt(index);
    if (!finding)
        return;
    const std::string module = finding->modules.empty() ? finding->rule : finding->modules.front();
    if (!module.empty())
        m_selection->selectModule(QString::fromStdString(genericName(module)));
    if (finding->span.valid())
        m_selection->selectLine(finding->span.line, finding->span.column);
}

// A row grows to a few lines; the whole of a longer text is in its tool tip and in the details.
void FindingsView::fitRows() {
    m_table->verticalHeader()->setMaximumSectionSize(mostLinesOfARow * m_table->fontMetrics().lineSpacing() + 6);
    m_table->resizeRowsToContents();
}

void FindingsView::resizeEvent(QResizeEvent *event) {
    QWidget::resizeEvent(event);
    fitRows();
}

} // namespace tpscope
