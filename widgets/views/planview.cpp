// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/planview.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QScopedValueRollback>
#include <QToolButton>
#include <QTreeWidget>
#include <QVBoxLayout>

#include "editor/planeditor.h"
#include "models/planworkbench.h"
#include "models/selection.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr int lintAfterMs = 150; // of quiet while typing
constexpr int mostInheritedRows = 5;

} // namespace

PlanView::PlanView(PlanWorkbench *workbench, Selection *selection, QWidget *parent)
    : QWidget(parent), m_workbench(workbench), m_selection(selection), m_editor(new PlanEditor), m_bar(new QWidget),
      m_message(new QLabel), m_answers{new QPushButton, new QPushButton}, m_inheritedTitle(new QToolButton),
      m_inherited(new QTreeWidget) {
    setFocusProxy(m_editor);
    buildMessage();
    buildInherited();
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(m_bar);
    layout->addWidget(m_editor, 1);
    layout->addWidget(m_inheritedTitle);
    layout->addWidget(m_inherited);

    m_typing.setSingleShot(true);
    m_typing.setInterval(lintAfterMs);
    connect(&m_typing, &QTimer::timeout, this, &PlanView::sendText);
    connect(m_editor, &PlanEditor::textEdited, this, [this] { m_typing.start(); });
    connect(m_editor, &PlanEditor::caretLineChanged, this, &PlanView::followCaret);
    connect(workbench, &PlanWorkbench::analysisChanged, this, &PlanView::showAnalysis);
    connect(workbench, &PlanWorkbench::modelOpened, this, [this](const std::shared_ptr<const Workspace> &workspace) {
        m_editor->setCompletions(keyCompletions(*workspace), styleCompletions());
    });
    connect(selection, &Selection::moduleSelected, this, &PlanView::followModule);
    connect(selection, &Selection::lineSelected, this, [this](int line, int column) {
        if (m_following || line < 1)
            return;
        m_editor->goTo(line, column);
    });
}

void PlanView::buildMessage() {
    m_bar->setAutoFillBackground(true);
    m_bar->setBackgroundRole(QPalette::AlternateBase);
    auto *line = new QHBoxLayout(m_bar);
    line->setContentsMargins(10, 5, 6, 5);
    m_message->setWordWrap(true);
    line->addWidget(m_message, 1);
    for (std::size_t i = 0; i < std::size(m_answers); ++i) {
        line->addWidget(m_answers[i]);
        connect(m_answers[i], &QPushButton::clicked, this, [this, i] {
            const auto answers = m_answersShown;
            hideMessage();
            if (i < answers.size() && answers[i].run)
                answers[i].run();
        });
    }
    m_bar->hide();
}

void PlanView::buildInherited() {
    m_inheritedTitle->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    m_inheritedTitle->setAutoRaise(true);
    m_inheritedTitle->setArrowType(Qt::DownArrow);
    m_inheritedTitle->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(m_inheritedTitle, &QToolButton::clicked, this, [this] {
        m_inheritedOpen = !m_inheritedOpen;
        m_inherited->setVisible(m_inheritedOpen);
        m_inheritedTitle->setArrowType(m_inheritedOpen ? Qt::DownArrow : Qt::RightArrow);
    });
    m_inherited->setHeaderLabels({tr("Inherited rule"), tr("Style"), tr("From")});
    m_inherited->setRootIsDecorated(false);
    m_inherited->setFrameShape(QFrame::NoFrame);
    m_inherited->setUniformRowHeights(true);
    m_inherited->setAlternatingRowColors(true);
    m_inherited->header()->setStretchLastSection(true);
    m_inherited->setToolTip(tr("These rules apply although the text does not hold them. Double-click to write one into "
                               "the plan and change it there."));
    connect(m_inherited, &QTreeWidget::itemClicked, this,
            [this](QTreeWidgetItem *item) { m_selection->selectModule(item->text(0)); });
    connect(m_inherited, &QTreeWidget::itemDoubleClicked, this,
            [this](QTreeWidgetItem *item) { setStyle(item->text(0), item->text(1)); });
    m_inheritedTitle->hide();
    m_inherited->hide();
}

void PlanView::setFileName(const QString &fileName) {
    m_fileName = fileName;
    sendText();
}

void PlanView::openText(const QByteArray &utf8, const QString &fileName) {
    hideMessage();
    m_fileName = fileName;
    m_editor->openText(utf8);
    sendText();
}

void PlanView::sendText() {
    m_typing.stop();
    m_workbench->setPlanText(QString::fromUtf8(m_editor->planText()), m_fileName);
}

void PlanView::showAnalysis() {
    const auto analysis = m_workbench->analysis();
    // Places of another text mean nothing here; the analysis of this one is on its way.
    if (!analysis || m_workbench->planText().toUtf8() != m_editor->planText() || !m_workbench->analysisIsCurrent())
        return;
    m_editor->showAnalysis(analysis, findingsOf(*analysis));
    if (!analysis->unreadable)
        showInherited();
}

void PlanView::showInherited() {
    const auto rules = inheritedRules(*m_workbench->analysis());
    m_inherited->clear();
    for (const EffectiveRule *rule : rules) {
        auto *item =
            new QTreeWidgetItem(m_inherited, {QString::fromStdString(rule->rule.key),
                                              QString::fromStdString(rule->rule.style), originText(rule->rule.origin)});
        item->setToolTip(0, ruleHover(*m_workbench->analysis(), *rule));
        for (int column = 0; column < 3; ++column)
            item->setForeground(column, Theme::subtleText());
    }
    m_inherited->resizeColumnToContents(0);
    m_inherited->resizeColumnToContents(1);
    m_inheritedTitle->setText(rules.size() == 1
                                  ? tr("1 inherited rule: it applies, and is not in the text")
                                  : tr("%1 inherited rules: they apply, and are not in the text").arg(rules.size()));
    m_inheritedTitle->setVisible(!rules.empty());
    m_inherited->setVisible(!rules.empty() && m_inheritedOpen);
    const int row = m_inherited->sizeHintForRow(0);
    m_inherited->setFixedHeight(m_inherited->header()->sizeHint().height() +
                                row * std::min<int>(mostInheritedRows, static_cast<int>(rules.size())) + 1);
}

void PlanView::followCaret(int line) {
    const auto analysis = m_workbench->analysis();
    if (m_following || !analysis || !m_editor->hasFocus())
        return;
    const QScopedValueRollback guard(m_following, true);
    if (const EffectiveRule *rule = ruleAtLine(*analysis, line))
        m_selection->selectModule(QString::fromStdString(rule->rule.key));
    m_selection->selectLine(line, 1);
}

void PlanView::followModule(const QString &module) {
    const auto analysis = m_workbench->analysis();
    if (m_following || !analysis || module.isEmpty())
        return;
    const SourceSpan span = ruleSpanOf(*analysis, module);
    if (span.valid() && span.line != m_editor->caretLine())
        m_editor->goTo(span.line, span.column);
}

bool PlanView::setStyle(const QString &key, const QString &style) {
    const std::string text = m_editor->planText().toStdString();
    const auto document = parsePlan(text, m_fileName.isEmpty() ? "plan" : m_fileName.toStdString());
    if (!document) {
        emit hinted(tr("The plan cannot be read now: %1").arg(QString::fromStdString(document.error().text())));
        return false;
    }
    std::optional<std::size_t> rule;
    for (std::size_t i = 0; i < document->rules.size(); ++i)
        if (document->rules[i].key == key.toStdString())
            rule = i;
    const TextEdit edit = rule ? setStyleEdit(*document, *rule, style.toStdString())
                               : addRuleEdit(*document, key.toStdString(), style.toStdString());
    m_editor->applyEdits({edit});
    sendText();
    emit hinted(tr("%1: %2").arg(key, style));
    return true;
}

// Edits hold places of the analysed text: none may be applied to a newer one.
bool PlanView::textIsChecked() {
    if (m_workbench->analysisIsCurrent() && !m_typing.isActive())
        return true;
    emit hinted(tr("The plan is being checked; try again in a moment."));
    return false;
}

bool PlanView::applyFixOf(const Diagnostic &finding) {
    if (!finding.fix || finding.fix->edits.empty() || !textIsChecked())
        return false;
    const QString title = QString::fromStdString(finding.fix->title);
    m_editor->applyEdits(finding.fix->edits);
    sendText();
    emit hinted(tr("Applied: %1").arg(title));
    return true;
}

bool PlanView::applyFix() {
    if (!textIsChecked())
        return false;
    if (m_editor->applyFixAtCaret()) {
        sendText();
        return true;
    }
    emit hinted(tr("No fix is known for this line. F8 goes to the next finding."));
    return false;
}

void PlanView::nextFinding(int direction) {
    const Diagnostic *finding = m_editor->goToNextFinding(direction);
    emit hinted(finding ? tr("%1 in line %2").arg(QString::fromStdString(finding->code)).arg(finding->span.line)
                        : tr("No findings in the text."));
    m_editor->setFocus();
}

void PlanView::showMessage(const QString &text, std::vector<Answer> answers) {
    m_answersShown = std::move(answers);
    m_message->setText(Theme::mark(Meaning::Warning) + QLatin1Char(' ') + text);
    for (std::size_t i = 0; i < std::size(m_answers); ++i) {
        m_answers[i]->setVisible(i < m_answersShown.size());
        if (i < m_answersShown.size())
            m_answers[i]->setText(m_answersShown[i].text);
    }
    m_bar->show();
}

void PlanView::hideMessage() {
    m_answersShown.clear();
    m_message->clear();
    m_bar->hide();
}

QString PlanView::message() const { return m_message->text(); }

void PlanView::refreshTheme() {
    m_editor->applyTheme();
    if (m_workbench->analysis() && !m_workbench->analysis()->unreadable)
        showInherited();
}

} // namespace tpscope
