// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runcontroller.h"

#include <QFile>
#include <QFileInfo>

namespace tpscope {
namespace {

QString from(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

} // namespace

RunController::RunController(const PlanWorkbench &workbench, RunStore &store, QObject *parent)
    : QObject(parent), m_workbench(workbench), m_store(store) {
    connect(&m_process, &RunProcess::progressed, this,
            [this](const QString &phase, const QString &message, double fraction) {
                RunEntry entry = current();
                entry.message = message.isEmpty() ? phase : message;
                entry.fraction = fraction;
                m_store.update(entry);
                emit progressed(entry.message);
            });
    connect(&m_process, &RunProcess::runFinished, this, [this](std::shared_ptr<const RunTrace> trace) {
        RunEntry entry = current();
        entry.trace = std::move(trace);
        finish(std::move(entry), QStringLiteral("done"), {});
    });
    connect(&m_process, &RunProcess::comparisonFinished, this, [this](std::shared_ptr<const Comparison> comparison) {
        RunEntry entry = current();
        entry.comparison = std::move(comparison);
        finish(std::move(entry), QStringLiteral("done"), {});
    });
    connect(&m_process, &RunProcess::failed, this,
            [this](const QString &message, int) { finish(current(), QStringLiteral("failed"), message); });
    connect(&m_process, &RunProcess::cancelled, this,
            [this] { finish(current(), QStringLiteral("cancelled"), tr("stopped by you")); });
    connect(&m_process, &RunProcess::ended, this, [this] { emit runningChanged(false); });
}

RunEntry RunController::current() const {
    const RunEntry *entry = m_store.entry(m_entry);
    return entry ? *entry : RunEntry{};
}

void RunController::finish(RunEntry entry, const QString &state, const QString &message) {
    entry.state = state;
    entry.fraction = -1.0;
    entry.message = message;
    m_store.update(entry);
    if (entry.trace || entry.comparison)
        m_store.setCurrent(entry.id);
    emit said(message.isEmpty() ? tr("%1: %2").arg(entry.title, state)
                                : tr("%1: %2: %3").arg(entry.title, state, message));
}

QString RunController::conditions() const { return tr("%1, tp %2").arg(from(name(m_backend))).arg(m_workbench.tp()); }

// The file that stands for the text: named after the plan, so that messages of the process name what the user knows.
QString RunController::planArgument() {
    if (m_workbench.planText().isEmpty())
        return QStringLiteral("auto");
    const QString named = QFileInfo(m_workbench.planFileName()).fileName();
    const QString path = m_folder.filePath(named.isEmpty() ? QStringLiteral("plan.yaml") : named);
    QFile file(path);
    if (!m_folder.isValid() || !file.open(QIODevice::WriteOnly) || file.write(m_workbench.planText().toUtf8()) < 0) {
        emit refused(tr("The plan could not be written for the run: %1: %2").arg(path, file.errorString()));
        return {};
    }
    return path;
}

QStringList RunController::commonOptions() {
    const QString plan = planArgument();
    if (plan.isEmpty())
        return {};
    return {QStringLiteral("--model"),      m_workbench.modelArgument(),
            QStringLiteral("--tp"),         QString::number(m_workbench.tp()),
            QStringLiteral("--backend"),    from(name(m_backend)),
            QStringLiteral("--new-tokens"), QString::number(m_newTokens),
            QStringLiteral("--plan"),       plan};
}

void RunController::run() {
    const QStringList options = commonOptions();
    if (options.isEmpty())
        return;
    const QString hooks = from(name(m_workbench.hooks()));
    begin(tr("Run \u2013 %1, %2").arg(conditions(), hooks), QStringLiteral("run"),
          options + QStringList{QStringLiteral("--hooks"), hooks});
}

void RunController::compareHooks() {
    const QStringList options = commonOptions();
    if (options.isEmpty())
        return;
    const HookMode chosen = m_workbench.hooks();
    const HookMode after = chosen == HookMode::ModuleBackward ? HookMode::PostAccumulateGrad : chosen;
    begin(tr("Compare hooks \u2013 %1").arg(conditions()), QStringLiteral("compare"),
          options + QStringList{QStringLiteral("--before-hooks"), from(name(HookMode::ModuleBackward)),
                                QStringLiteral("--after-hooks"), from(name(after))});
}

void RunController::comparePlans(const QString &beforePath) {
    QStringList options = commonOptions();
    if (options.isEmpty())
        return;
    const QString after = options.takeLast();
    options.removeLast();
    begin(tr("Compare with %1 \u2013 %2").arg(QFileInfo(beforePath).fileName(), conditions()),
          QStringLiteral("compare"),
          options + QStringList{QStringLiteral("--before-plan"), beforePath, QStringLiteral("--after-plan"), after,
                                QStringLiteral("--hooks"), from(name(m_workbench.hooks()))});
}

void RunController::begin(const QString &title, const QString &verb, const QStringList &options) {
    if (isRunning()) {
        emit refused(tr("Another run is going on; stop it first."));
        return;
    }
    RunEntry entry;
    entry.title = title;
    entry.state = QStringLiteral("running");
    entry.message = tr("starting tpscope %1").arg(verb);
    m_entry = m_store.add(entry);
    emit said(tr("tpscope %1 %2").arg(verb, options.join(QLatin1Char(' '))));
    m_process.start(QStringList{verb} + options);
    if (isRunning())
        emit runningChanged(true);
}

void RunController::stop() { m_process.stop(); }

} // namespace tpscope
