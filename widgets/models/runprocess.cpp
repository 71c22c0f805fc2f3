// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runprocess.h"

#include <QCoreApplication>
#include <QTimer>

#include "models/runlines.h"

namespace tpscope {
namespace {

constexpr int killAfterMs = 5000;
constexpr qsizetype keptErrorBytes = 16 * 1024; // the end of what the process said

} // namespace

struct RunProcess::Private {
    QProcess process;
    RunLines lines;
    QByteArray errors;
    bool stopping = false;
    bool delivered = false;
    bool reading = false; // since the start until the last line is told
    int exitCode = 0;
    QProcess::ExitStatus status = QProcess::NormalExit;
};

RunProcess::RunProcess(QObject *parent) : QObject(parent), d(std::make_unique<Private>()) {
    connect(&d->process, &QProcess::readyReadStandardOutput, this,
            [this] { d->lines.feed(d->process.readAllStandardOutput()); });
    connect(&d->process, &QProcess::readyReadStandardError, this, [this] {
        d->errors = (d->errors + d->process.readAllStandardError()).right(keptErrorBytes);
    });
    connect(&d->process, &QProcess::finished, this, &RunProcess::onFinished);
    connect(&d->process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart)
            return;
        d->reading = false;
        emit failed(tr("%1 could not be started: %2").arg(programPath(), d->process.errorString()), -1);
        emit ended();
    });
    connect(&d->lines, &RunLines::progressed, this, &RunProcess::progressed);
    connect(&d->lines, &RunLines::eventsArrived, this, &RunProcess::eventsArrived);
    connect(&d->lines, &RunLines::runFinished, this, [this](const std::shared_ptr<const RunTrace> &trace) {
        d->delivered = true;
        emit runFinished(trace);
    });
    connect(&d->lines, &RunLines::comparisonFinished, this, [this](const std::shared_ptr<const Comparison> &result) {
        d->delivered = true;
        emit comparisonFinished(result);
    });
    connect(&d->lines, &RunLines::unreadableResult, this, [this](const QString &why) {
        d->errors += "\n" + tr("its result could not be read: %1").arg(why).toUtf8();
    });
    connect(&d->lines, &RunLines::finished, this, &RunProcess::onAllTold);
}

RunProcess::~RunProcess() {
    d->process.disconnect(this);
    if (d->process.state() == QProcess::NotRunning)
        return;
    d->process.terminate();
    if (!d->process.waitForFinished(killAfterMs)) {
        d->process.kill();
        d->process.waitForFinished(killAfterMs);
    }
}

QString RunProcess::programPath() {
    const QString named = qEnvironmentVariable("TPSCOPE_PROGRAM");
    return named.isEmpty() ? QCoreApplication::applicationDirPath() + QStringLiteral("/tpscope") : named;
}

void RunProcess::start(const QStringList &arguments) {
    d->errors.clear();
    d->stopping = d->delivered = false;
    d->reading = true;
    d->process.start(programPath(), arguments + QStringList{QStringLiteral("--quiet"), QStringLiteral("--events"),
                                                            QStringLiteral("-")});
}

void RunProcess::stop() {
    if (!isRunning())
        return;
    d->stopping = true;
    d->process.terminate();
    QTimer::singleShot(killAfterMs, &d->process, [this] {
        if (d->stopping && d->process.state() != QProcess::NotRunning)
            d->process.kill();
    });
}

bool RunProcess::isRunning() const { return d->reading; }

void RunProcess::onFinished(int exitCode, QProcess::ExitStatus status) {
    d->exitCode = exitCode;
    d->status = status;
    d->errors = (d->errors + d->process.readAllStandardError()).right(keptErrorBytes);
    d->lines.feed(d->process.readAllStandardOutput());
    d->lines.finish();
}

// The process ended and its last line was read.
void RunProcess::onAllTold() {
    d->reading = false;
    // Exit code 1 says that there are findings; a result is a result.
    const bool done = d->delivered && d->status == QProcess::NormalExit && d->exitCode <= 1;
    if (!done && (d->stopping || d->exitCode == 130))
        emit cancelled();
    else if (!done)
        emit failed(lastWords(d->exitCode, d->status), d->exitCode);
    emit ended();
}

QString RunProcess::lastWords(int exitCode, QProcess::ExitStatus status) const {
    const QString words = QString::fromUtf8(d->errors).trimmed();
    if (status == QProcess::CrashExit)
        return tr("the run's process crashed. %1").arg(words);
    return words.isEmpty() ? tr("the run ended with exit code %1 and said nothing").arg(exitCode) : words;
}

} // namespace tpscope
