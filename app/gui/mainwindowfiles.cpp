// SPDX-License-Identifier: GPL-3.0-or-later
// Plans, models, comparisons and exports of MainWindow.
#include "app/gui/mainwindow.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <QSettings>
#include <QSpinBox>
#include <QTabWidget>
#include <QThreadPool>

#include "editor/planeditor.h"
#include "model/modelsource.h"
#include "models/recording.h"
#include "plan/planwriter.h"
#include "report/comparisonfacts.h"
#include "views/exportdialog.h"
#include "views/findingsview.h"
#include "views/planview.h"

namespace tpscope {
namespace {

constexpr int mostRecent = 8;
const char planFilter[] = QT_TRANSLATE_NOOP("MainWindow", "Plans (*.yaml *.yml *.json);;All files (*)");

// The bundled model a plan was written for, the smallest first; qwen3-tiny when the plan does not say.
QString modelFor(const std::optional<std::string> &modelType) {
    QString found = QStringLiteral("qwen3-tiny");
    if (!modelType || *modelType == "qwen3")
        return found;
    for (const std::string &name : bundledModelNames())
        if (name.starts_with(*modelType + "-"))
            return QString::fromStdString(name);
    return found;
}

} // namespace

void MainWindow::openModel(const QString &argument) {
    if (mayDiscard())
        beginModel(argument, OnOpen::AutoPlan);
}

void MainWindow::openWith(const QString &model, const QString &planPath) {
    if (planPath.isEmpty())
        beginModel(model, OnOpen::AutoPlan);
    else if (model.isEmpty())
        openPlan(planPath);
    else
        beginModel(model, OnOpen::File, planPath);
}

void MainWindow::beginModel(const QString &argument, OnOpen then, const QString &planPath) {
    m_onOpen = then;
    m_opening = true;
    m_planToOpen = planPath;
    say(tr("Opening %1").arg(argument));
    m_workbench.openModel(argument);
}

void MainWindow::onModelOpened() {
    m_opening = false;
    const auto workspace = m_workbench.workspace();
    const QString argument = m_workbench.modelArgument();
    if (!workspace->source.bundled && QFileInfo::exists(argument))
        remember(QFileInfo(argument).absoluteFilePath());
    if (m_modelBox->findText(argument) < 0)
        m_modelBox->addItem(argument);
    m_modelBox->setCurrentText(argument);
    if (!m_backendChosen)
        m_backendBox->setCurrentIndex(m_backendBox->findData(
            static_cast<int>(workspace->source.hasWeights() ? Backend::Gloo : Backend::Simulated)));
    m_selection.selectModule({});
    const OnOpen then = std::exchange(m_onOpen, OnOpen::Keep);
    if (then == OnOpen::AutoPlan || then == OnOpen::PlanWithoutSync)
        showNewPlan(autoPlanText(then == OnOpen::AutoPlan).toUtf8());
    if (then == OnOpen::File)
        openPlan(m_planToOpen);
    if (then == OnOpen::PlanWithoutSync)
        m_findings->setTraining(true);
    leaveStart();
    updateTitle();
    say(tr("%1: %2 modules, %3 parameters")
            .arg(QString::fromStdString(workspace->model.className))
            .arg(workspace->model.tree.modules.size())
            .arg(workspace->model.parameterCount()));
}

void MainWindow::showNewPlan(const QByteArray &text) {
    m_file.close();
    m_plan->openText(text, {});
    updateTitle();
}

// The built-in plan written out, so that there is something to change; without the gradient sync: an example of a plan
// whose logits are right.
QString MainWindow::autoPlanText(bool withSync) const {
    const auto workspace = m_workbench.workspace();
    if (!workspace)
        return QStringLiteral("tp_plan:\n");
    const QString type = QString::fromStdString(workspace->model.modelType);
    if (!workspace->builtin)
        return tr("# transformers has no built-in plan for %1. Write rules below: a module pattern and a style;\n"
                  "# Ctrl+Space lists both.\n")
                   .arg(type) +
               QStringLiteral("model_type: %1\ntp_size: %2\ntp_plan:\n  ").arg(type).arg(m_workbench.tp());
    const ResolvedPlan plan = resolvePlan(workspace->model, {}, workspace->builtinOrNull(), m_workbench.tp());
    PlanToWrite writing = effectiveRules(workspace->model, plan);
    writing.tpSize = m_workbench.tp();
    if (withSync)
        return tr("# The built-in plan of %1, written out.\n# Change a rule and look at the findings.\n").arg(type) +
               QString::fromStdString(toYaml(writing));
    for (PlanRule &rule : writing.rules)
        if (const ParallelStyle *style = findStyle(rule.style); style && style->hooksParameters())
            rule.style = "replicate";
    return tr("# The norms are small, so this plan keeps them whole.\n# Its logits are right; are its gradients?\n") +
           QString::fromStdString(toYaml(writing));
}

void MainWindow::openPlan(const QString &path) {
    if (!mayDiscard())
        return;
    QByteArray text;
    if (const QString wrong = m_file.load(path, text); !wrong.isEmpty()) {
        complain(wrong);
        return;
    }
    const auto document = parsePlan(text.toStdString(), path.toStdString());
    m_plan->openText(text, m_file.path());
    if (document && document->tpSize) {
        m_writtenTp = document->tpSize;
        m_workbench.setTp(*document->tpSize);
    }
    remember(m_file.path());
    if (m_workbench.workspace())
        showTab(Tab::Plan);
    else
        beginModel(modelFor(document ? document->modelType : std::nullopt), OnOpen::Keep);
    updateTitle();
}

void MainWindow::openPath(const QString &path, std::optional<StartPage::Way> way) {
    QThreadPool::globalInstance()->start([this, guard = QPointer<MainWindow>(this), path, way] {
        const FileKind kind = fileKind(path);
        QMetaObject::invokeMethod(qApp, [this, guard, path, kind, way] {
            if (guard)
                openAs(path, kind, way);
        });
    });
}

// Of a plan or a model the graphs are what tells why a decode is slow; gradients are those of a training step.
void MainWindow::openAs(const QString &path, FileKind kind, std::optional<StartPage::Way> way) {
    if (kind == FileKind::Comparison) {
        openComparison(path);
        return;
    }
    if (way == StartPage::Way::WrongGradients)
        m_findings->setTraining(true);
    if (kind == FileKind::Model)
        openModel(path);
    else
        openPlan(path);
    m_tabs->setCurrentIndex(static_cast<int>(way == StartPage::Way::SlowDecode ? Tab::Graph : Tab::Plan));
}

void MainWindow::openPlanDialog() {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open plan"), QFileInfo(m_file.path()).path(), tr(planFilter));
    if (!path.isEmpty())
        openPlan(path);
}

void MainWindow::openModelDialog() {
    const QString path = QFileDialog::getExistingDirectory(this, tr("Open model: a folder with a config.json"));
    if (!path.isEmpty())
        openModel(path);
}

void MainWindow::openExample(StartPage::Way way) {
    if (!mayDiscard())
        return;
    const QString model = QStringLiteral("qwen3-tiny");
    switch (way) {
    case StartPage::Way::CheckPlan:
        m_tabs->setCurrentIndex(static_cast<int>(Tab::Plan));
        beginModel(model, OnOpen::AutoPlan);
        break;
    case StartPage::Way::WrongGradients:
        m_tabs->setCurrentIndex(static_cast<int>(Tab::Plan));
        beginModel(model, OnOpen::PlanWithoutSync);
        break;
    case StartPage::Way::SlowDecode:
        m_tabs->setCurrentIndex(static_cast<int>(Tab::Compare));
        beginModel(model, OnOpen::AutoPlan);
        openComparison(bundledRecordingPath());
        break;
    }
}

void MainWindow::openComparison(const QString &path) {
    QThreadPool::globalInstance()->start([this, guard = QPointer<MainWindow>(this), path] {
        auto loaded = loadComparison(path);
        QMetaObject::invokeMethod(qApp, [this, guard, path, loaded = std::move(loaded)]() mutable {
            if (!guard)
                return;
            if (!loaded) {
                const QString text = QString::fromStdString(loaded.error().text());
                complain(text);
                return;
            }
            RunEntry entry;
            entry.title = tr("Recorded \u2013 %1").arg(QFileInfo(path).completeBaseName());
            entry.state = QStringLiteral("recorded");
            entry.comparison = std::make_shared<const Comparison>(std::move(*loaded));
            if (path != bundledRecordingPath())
                remember(QFileInfo(path).absoluteFilePath());
            // With its model when that ships with TPScope, so that the graphs beside it are of the same.
            const std::string &model = entry.comparison->before.model;
            if (!m_workbench.workspace() && !m_opening && std::ranges::count(bundledModelNames(), model) > 0)
                beginModel(QString::fromStdString(model), OnOpen::AutoPlan);
            m_store.setCurrent(m_store.add(entry));
            showTab(Tab::Compare);
            emit recordingLoaded();
        });
    });
}

// The start page says what the recording found before anything is clicked.
void MainWindow::loadRecordedVerdict() {
    QThreadPool::globalInstance()->start([this, guard = QPointer<MainWindow>(this)] {
        const auto loaded = loadComparison(bundledRecordingPath());
        if (!loaded)
            return;
        const QString text = tr("Recorded: %1 \u2192 %2 a token, %3")
                                 .arg(QString::fromStdString(milliseconds(loaded->beforeMs.median)),
                                      QString::fromStdString(milliseconds(loaded->afterMs.median)),
                                      QString::fromStdString(std::string(name(loaded->verdict))));
        QMetaObject::invokeMethod(qApp, [this, guard, text] {
            if (guard)
                m_start->setRecorded(text);
        });
    });
}

bool MainWindow::savePlan() {
    if (m_file.path().isEmpty())
        return savePlanAs();
    const QString wrong = m_file.save(m_file.path(), m_plan->editor().planText());
    if (!wrong.isEmpty()) {
        say(wrong);
        QMessageBox::warning(this, tr("Save"), wrong);
        return false;
    }
    m_plan->editor().setModified(false);
    m_plan->hideMessage();
    m_plan->setFileName(m_file.path());
    remember(m_file.path());
    updateTitle();
    say(tr("Saved %1").arg(m_file.path()));
    return true;
}

bool MainWindow::savePlanAs() {
    const QString proposal = m_file.path().isEmpty() ? QStringLiteral("plan.yaml") : m_file.path();
    const QString path = QFileDialog::getSaveFileName(this, tr("Save plan"), proposal, tr(planFilter));
    if (path.isEmpty())
        return false;
    const QString wrong = m_file.save(path, m_plan->editor().planText());
    if (wrong.isEmpty())
        return savePlan();
    QMessageBox::warning(this, tr("Save"), wrong);
    return false;
}

bool MainWindow::mayDiscard() {
    if (!m_plan->editor().isModified())
        return true;
    const auto answer = QMessageBox::question(
        this, tr("Save the plan?"), tr("%1 has changes that are not saved.").arg(m_file.displayName()),
        QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel, QMessageBox::Save);
    if (answer == QMessageBox::Save)
        return savePlan();
    return answer == QMessageBox::Discard;
}

// Without edits of one's own the new text is taken, and can be undone; with edits the user decides.
void MainWindow::onChangedOnDisk(const QByteArray &text) {
    const auto take = [this](const QByteArray &bytes) {
        m_plan->editor().replaceText(bytes);
        m_plan->editor().setModified(false);
        updateTitle();
    };
    if (!m_plan->editor().isModified()) {
        take(text);
        m_plan->showMessage(tr("%1 was changed by another program and read again. Undo brings back what was here.")
                                .arg(m_file.displayName()),
                            {{tr("OK"), {}}});
        return;
    }
    m_plan->showMessage(
        tr("%1 was changed by another program, and you have changes that are not saved.").arg(m_file.displayName()),
        {{tr("Take theirs"), [take, text] { take(text); }}, {tr("Keep mine"), {}}});
}

void MainWindow::exportAs(const QString &formatId) {
    std::vector<ExportPicture> pictures;
    for (const Plot &plot : m_plots)
        pictures.push_back({plot.title, plot.hasContent(), plot.savePng});
    const QString base = m_file.path().isEmpty() ? m_workbench.modelArgument() + QStringLiteral("-plan")
                                                 : QFileInfo(m_file.path()).path() + QLatin1Char('/') +
                                                       QFileInfo(m_file.path()).completeBaseName();
    auto *dialog = new ExportDialog(m_workbench.analysis(), m_store.currentComparison(), m_workbench.modelArgument(),
                                    base, std::move(pictures), this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->choose(formatId);
    dialog->open();
}

void MainWindow::remember(const QString &path) {
    QSettings settings;
    QStringList recent = settings.value(QStringLiteral("recent")).toStringList();
    recent.removeAll(path);
    recent.prepend(path);
    recent.resize(std::min<qsizetype>(recent.size(), mostRecent));
    settings.setValue(QStringLiteral("recent"), recent);
    m_start->setRecent(recent);
}

void MainWindow::about() {
    QMessageBox::about(
        this, tr("About TPScope"),
        tr("<b>TPScope %1</b><p>A profiler and editor for tensor-parallel plans of Hugging Face models.</p>"
           "<p>GPL-3.0-or-later. Uses Qt, QCustomPlot, QScintilla.</p>")
            .arg(QCoreApplication::applicationVersion()));
}

} // namespace tpscope
