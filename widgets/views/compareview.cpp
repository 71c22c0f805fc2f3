// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/compareview.h"

#include <QEvent>
#include <QHeaderView>
#include <QLabel>
#include <QScrollArea>
#include <QTableWidget>
#include <QVBoxLayout>

#include "plot/countertiles.h"
#include "plot/intervalbar.h"
#include "plot/plotstyle.h"
#include "report/comparisonfacts.h"
#include "style/theme.h"
#include "views/compareviewfacts.h"

namespace tpscope {
namespace {

QString q(const std::string &text) { return QString::fromStdString(text); }

// Numbers stand right, one below the other.
QTableWidgetItem *cellOf(const QString &text) {
    auto *item = new QTableWidgetItem(text);
    if (!text.isEmpty() && (text[0].isDigit() || text == QStringLiteral("-")))
        item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
    return item;
}

QLabel *textLabel() {
    auto *label = new QLabel;
    label->setWordWrap(true);
    label->setTextFormat(Qt::PlainText);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

} // namespace

CompareView::CompareView(RunStore *store, PlanWorkbench *workbench, QWidget *parent)
    : QWidget(parent), m_store(store), m_workbench(workbench) {
    buildLayout();
    connect(m_store, &RunStore::currentChanged, this, &CompareView::refresh);
    connect(m_store, &RunStore::entryChanged, this, [this](int id) {
        if (id == m_store->current())
            refresh();
    });
    connect(m_workbench, &PlanWorkbench::modelOpened, this, &CompareView::refresh);
    refresh();
}

void CompareView::buildLayout() {
    m_page = new QWidget;
    auto *page = new QVBoxLayout(m_page);
    page->setContentsMargins(16, 12, 16, 16);
    page->setSpacing(8);
    m_title = textLabel();
    m_headline = textLabel();
    m_reason = textLabel();
    m_tiles = new CounterTiles;
    m_interval = new IntervalBar;
    m_rest = new QWidget;
    m_restLayout = new QVBoxLayout(m_rest);
    m_restLayout->setContentsMargins(0, 0, 0, 0);
    for (QWidget *widget : {static_cast<QWidget *>(m_title), static_cast<QWidget *>(m_headline),
                            static_cast<QWidget *>(m_reason), static_cast<QWidget *>(m_tiles),
                            static_cast<QWidget *>(m_interval), m_rest})
        page->addWidget(widget);
    page->addStretch();
    m_scroll = new QScrollArea;
    m_scroll->setFrameShape(QFrame::NoFrame);
    m_scroll->setWidgetResizable(true);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setWidget(m_page);
    m_empty = new QLabel;
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setWordWrap(true);
    m_empty->setMargin(24);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_scroll, 1);
    layout->addWidget(m_empty, 1);
}

bool CompareView::hasContent() const { return m_store->currentComparison() != nullptr; }

QString CompareView::headline() const { return m_headline->text(); }

void CompareView::refresh() {
    const auto comparison = m_store->currentComparison();
    m_scroll->setVisible(comparison != nullptr);
    m_empty->setVisible(comparison == nullptr);
    clearTables();
    if (comparison) {
        showComparison(*comparison);
        return;
    }
    const RunEntry *entry = m_store->entry(m_store->current());
    m_empty->setText(entry ? tr("\u201c%1\u201d is a single run. Compare hooks or plans to see two sides here.")
                                 .arg(entry->title)
                           : tr("No comparison yet. Use Compare to run two hook modes or two plans in turn, or open a "
                                "recorded comparison:\nthe verdict, its numbers and what they rest on appear here."));
}

void CompareView::showComparison(const Comparison &comparison) {
    const ComparisonFacts facts = comparisonFacts(comparison);
    const VerdictWords verdict = verdictWords(comparison);
    m_title->setText(q(facts.title));
    m_headline->setText(verdict.mark + QStringLiteral("  ") + verdict.headline);
    QFont large = font();
    large.setPointSizeF(large.pointSizeF() * 1.6);
    large.setBold(true);
    m_headline->setFont(large);
    m_reason->setText(verdict.reason);
    m_reason->setVisible(!verdict.reason.isEmpty());
    m_tiles->setTiles(comparisonTiles(comparison));
    m_interval->setVisible(comparison.beforeMs.n > 0 && comparison.afterMs.n > 0);
    m_interval->setDifference(comparison.deltaMs, comparison.ci95Ms);
    showPlans(comparison);
    addTitle(tr("Numbers and their sources"));
    addTable(facts.numbers);
    for (const ReportTable &table : facts.details) {
        addTitle(q(table.title));
        if (!table.note.empty())
            addText(q(table.note), true);
        addTable(table);
    }
    addTitle(tr("What they rest on"));
    QStringList notes;
    for (const std::string &note : facts.notes)
        notes << QStringLiteral("\u2022 ") + q(note);
    addText(notes.join('\n'));
}

void CompareView::showPlans(const Comparison &comparison) {
    const PlanDifference difference =
        planDifference(comparison, m_workbench->workspace().get(), m_workbench->modelArgument());
    addTitle(tr("Plans"));
    addText(difference.summary);
    if (difference.rules.empty())
        return;
    ReportTable table{"", "", {tr("rule").toStdString(), tr("before").toStdString(), tr("after").toStdString()}, {}};
    const auto shown = [](const QString &style) {
        return style.isEmpty() ? std::string("\u2013") : style.toStdString();
    };
    for (const RuleDifference &rule : difference.rules)
        table.rows.push_back({rule.pattern.toStdString(), shown(rule.before), shown(rule.after)});
    addTable(table);
}

void CompareView::clearTables() {
    while (QLayoutItem *item = m_restLayout->takeAt(0)) {
        delete item->widget();
        delete item;
    }
}

void CompareView::addTitle(const QString &text) {
    QLabel *label = addText(text);
    QFont bold = font();
    bold.setBold(true);
    label->setFont(bold);
    label->setContentsMargins(0, 10, 0, 0);
}

QLabel *CompareView::addText(const QString &text, bool subtle) {
    QLabel *label = textLabel();
    label->setText(text);
    if (subtle) {
        QPalette pale = palette();
        pale.setColor(QPalette::WindowText, Theme::subtleText());
        label->setPalette(pale);
    }
    m_restLayout->addWidget(label);
    return label;
}

QTableWidget *CompareView::addTable(const ReportTable &table) {
    const int rows = static_cast<int>(table.rows.size()), columns = static_cast<int>(table.headers.size());
    auto *made = new QTableWidget(rows, columns);
    QStringList headers;
    for (const std::string &header : table.headers)
        headers << q(header);
    made->setHorizontalHeaderLabels(headers);
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column)
            made->setItem(row, column, cellOf(q(table.rows[static_cast<std::size_t>(row)]
                                                          [static_cast<std::size_t>(column)])));
    made->setEditTriggers(QAbstractItemView::NoEditTriggers);
    made->setFocusPolicy(Qt::ClickFocus);
    made->setAlternatingRowColors(true);
    made->setShowGrid(false);
    made->setWordWrap(false);
    made->verticalHeader()->hide();
    made->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
    made->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    made->horizontalHeader()->setHighlightSections(false);
    made->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    made->horizontalHeader()->setStretchLastSection(true);
    made->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    made->setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
    made->setFixedHeight(made->horizontalHeader()->sizeHint().height() +
                         rows * made->verticalHeader()->defaultSectionSize() + 2 * made->frameWidth());
    m_restLayout->addWidget(made);
    return made;
}

bool CompareView::savePng(const QString &file, double scale) {
    return hasContent() && saveWidgetPng(*m_page, file, scale);
}

void CompareView::changeEvent(QEvent *event) {
    QWidget::changeEvent(event);
    if (m_empty && event->type() == QEvent::PaletteChange)
        refresh();
}

} // namespace tpscope
