// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/runsview.h"

#include <QFontDatabase>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "models/runsmodel.h"
#include "models/runstore.h"
#include "report/comparisontext.h"

namespace tpscope {
namespace {

// What there is to say of a run: its words when it failed, else its result with the sources of the numbers.
QString wordsOf(const RunEntry &entry) {
    if (entry.comparison)
        return QString::fromStdString(comparisonText(*entry.comparison));
    if (!entry.trace)
        return entry.message;
    const RunTrace &trace = *entry.trace;
    const Summary summary = summarize(trace.tokenMs);
    const QString source = QString::fromStdString(std::string(name(trace.source)));
    QStringList lines;
    if (summary.n > 0)
        lines << RunsView::tr("%1 ms a token: median of %2, p90 %3, p99 %4 (%5)")
                     .arg(summary.median, 0, 'f', 3)
                     .arg(summary.n)
                     .arg(summary.p90, 0, 'f', 3)
                     .arg(summary.p99, 0, 'f', 3)
                     .arg(source);
    lines << RunsView::tr("%1 hooks registered after the decode (%2)").arg(trace.hooksRegistered).arg(source);
    for (const auto &[kind, count] : trace.collectives)
        lines << RunsView::tr("%1: %2 a token, %3 bytes (%4)")
                     .arg(QString::fromStdString(kind))
                     .arg(count.count)
                     .arg(count.bytes)
                     .arg(source);
    for (const std::string &statement : trace.statements)
        lines << QString::fromStdString(statement);
    if (!trace.environment.machine.empty())
        lines << RunsView::tr("on %1").arg(QString::fromStdString(trace.environment.machine));
    return lines.join(QLatin1Char('\n'));
}

} // namespace

RunsView::RunsView(RunStore *store, QWidget *parent)
    : QWidget(parent), m_store(store), m_model(new RunsModel(*store, this)), m_table(new QTableView),
      m_now(new QLabel(tr("No run yet. F5 runs the plan; Compare hooks runs it with hooks before and after."))),
      m_progress(new QProgressBar), m_stop(new QPushButton(tr("Stop"))), m_words(new QPlainTextEdit) {
    buildTable();
    m_progress->setMaximumWidth(180);
    m_progress->setTextVisible(false);
    m_progress->hide();
    m_stop->hide();
    m_words->setReadOnly(true);
    m_words->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    m_words->setFrameShape(QFrame::NoFrame);
    m_words->setPlaceholderText(tr("What a run says of itself is shown here."));
    auto *line = new QHBoxLayout;
    line->setContentsMargins(8, 2, 8, 2);
    line->addWidget(m_now, 1);
    line->addWidget(m_progress);
    line->addWidget(m_stop);
    auto *split = new QSplitter;
    split->addWidget(m_table);
    split->addWidget(m_words);
    split->setSizes({560, 560});
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(line);
    layout->addWidget(split, 1);

    connect(m_stop, &QPushButton::clicked, this, &RunsView::stopRequested);
    connect(store, &RunStore::entryAdded, this, [this](int id) {
        selectEntry(id);
        showSelected();
    });
    connect(store, &RunStore::entryChanged, this, [this](int) { showSelected(); });
    connect(store, &RunStore::currentChanged, this, &RunsView::selectEntry);
}

void RunsView::buildTable() {
    m_table->setModel(m_model);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setSelectionMode(QAbstractItemView::SingleSelection);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setShowGrid(false);
    m_table->setAlternatingRowColors(true);
    m_table->setFrameShape(QFrame::NoFrame);
    m_table->setAccessibleName(tr("Runs"));
    m_table->verticalHeader()->hide();
    m_table->horizontalHeader()->setHighlightSections(false);
    m_table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    m_table->horizontalHeader()->setSectionResizeMode(RunsModel::ResultColumn, QHeaderView::Stretch);
    m_table->setColumnWidth(RunsModel::TitleColumn, 230);
    m_table->setColumnWidth(RunsModel::StateColumn, 100);
    m_table->setColumnWidth(RunsModel::SourceColumn, 84);
    connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this] {
        const RunEntry *entry = m_store->entry(selectedId());
        if (entry && (entry->trace || entry->comparison))
            m_store->setCurrent(entry->id);
        showSelected();
    });
}

int RunsView::selectedId() const { return m_table->currentIndex().siblingAtColumn(0).data(RunsModel::IdRole).toInt(); }

void RunsView::selectEntry(int id) {
    for (int row = 0; row < m_model->rowCount(); ++row)
        if (m_model->index(row, 0).data(RunsModel::IdRole).toInt() == id && row != m_table->currentIndex().row())
            m_table->selectRow(row);
}

void RunsView::showSelected() {
    const RunEntry *running = nullptr;
    for (const RunEntry &entry : m_store->entries())
        if (entry.state == QLatin1String("running"))
            running = &entry;
    m_progress->setVisible(running);
    m_stop->setVisible(running);
    if (running) {
        m_now->setText(tr("%1: %2").arg(running->title, running->message));
        m_progress->setRange(0, running->fraction < 0 ? 0 : 100);
        m_progress->setValue(qRound(running->fraction * 100));
    } else {
        m_now->setText(tr("Select a run to show it in the other views."));
    }
    const RunEntry *entry = m_store->entry(selectedId());
    const QString text = entry ? wordsOf(*entry) : QString();
    // Tables of a comparison keep their columns; sentences wrap.
    m_words->setLineWrapMode(entry && entry->comparison ? QPlainTextEdit::NoWrap : QPlainTextEdit::WidgetWidth);
    if (text != m_words->toPlainText())
        m_words->setPlainText(text);
}

QString RunsView::words() const { return m_words->toPlainText(); }

} // namespace tpscope
