// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runprocess.h"

#include <QCoreApplication>
#include <QFileInfo>
#include <QTimer>

#include <csignal>
#include <nlohmann/json.hpp>

namespace tpscope {
namespace {

constexpr int killAfterMs = 5000;
constexpr qsizetype keptErrorBytes = 16 * 1024; // the end of what the process said

template <typename T>
void fillColumn(const nlohmann::json &line, const char *key, std::vector<Event> &events, T Event::*member) {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_array())
        return;
    for (std::size_t i = 0; i < events.size() && i < found->size(); ++i)
        if ((*found)[i].is_number_integer())
            events[i].*member = (*found)[i].get<T>();
}

EventKind kindOf(const std::string &text) {
    for (const EventKind kind : {EventKind::Compute, EventKind::Collective, EventKind::HookRegistration,
                                 EventKind::Launch, EventKind::Token, EventKind::Phase})
        if (name(kind) == text)
            return kind;
    return EventKind::Compute;
}

std::vector<Event> eventsOf(const nlohmann::json &line) {
    const auto starts = line.find("start_ns");
    std::vector<Event> events(starts != line.end() && starts->is_array() ? starts->size() : 0);
    fillColumn(line, "start_ns", events, &Event::start);
    fillColumn(line, "duration_ns", events, &Event::duration);
    fillColumn(line, "token", events, &Event::token);
    fillColumn(line, "layer", events, &Event::layer);
    fillColumn(line, "module", events, &Event::module);
    fillColumn(line, "op", events, &Event::op);
    fillColumn(line, "bytes", events, &Event::bytes);
    const auto kinds = line.find("kind");
    for (std::size_t i = 0; kinds != line.end() && i < events.size() && i < kinds->size(); ++i)
        if ((*kinds)[i].is_string())
            events[i].kind = kindOf((*kinds)[i].get<std::string>());
    return events;
}

} // namespace

struct RunProcess::Private {
    QProcess process;
    QByteArray line;   // an unfinished line of stdout
    QByteArray errors;
    bool stopping = false;
    bool delivered = false;
};

RunProcess::RunProcess(QObject *parent) : QObject(parent), d(std::make_unique<Private>()) {
    connect(&d->process, &QProcess::readyReadStandardOutput, this, &RunProcess::readLines);
    connect(&d->process, &QProcess::readyReadStandardError, this, [this] {
        d->errors = (d->errors + d->process.readAllStandardError()).right(keptErrorBytes);
    });
    connect(&d->process, &QProcess::finished, this, &RunProcess::onFinished);
    connect(&d->process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart)
            return;
        emit failed(tr("%1 could not be started: %2").arg(programPath(), d->process.errorString()), -1);
        emit ended();
    });
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
    d->line.clear();
    d->errors.clear();
    d->stopping = d->delivered = false;
    d->process.start(programPath(), arguments + QStringList{QStringLiteral("--quiet"), QStringLiteral("--events"),
                                                            QStringLiteral("-")});
}

void RunProcess::stop() {
    if (!isRunning())
        return;
    d->stopping = true;
    d->process.terminate();
    QTimer::singleShot(killAfterMs, &d->process, [this] {
        if (d->stopping && isRunning())
            d->process.kill();
    });
}

bool RunProcess::isRunning() const { return d->process.state() != QProcess::NotRunning; }

void RunProcess::readLines() {
    d->line += d->process.readAllStandardOutput();
    qsizetype end = 0;
    while ((end = d->line.indexOf('\n')) >= 0) {
        const QByteArray line = d->line.left(end);
        d->line.remove(0, end + 1);
        readLine(line);
    }
}

void RunProcess::readLine(const QByteArray &line) {
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object() || !json.contains("type"))
        return;
    const std::string type = json.value("type", std::string());
    if (type == "progress")
        emit progressed(QString::fromStdString(json.value("phase", std::string())),
                        QString::fromStdString(json.value("message", std::string())), json.value("fraction", -1.0));
    else if (type == "events")
        emit eventsArrived(json.value("rank", 0), eventsOf(json));
    else if (type == "result")
        readResult(json);
}

void RunProcess::readResult(const nlohmann::json &json) {
    const QString where = tr("the output of %1").arg(programPath());
    if (json.contains("before")) {
        if (auto comparison = comparisonFromJson(json, where.toStdString())) {
            d->delivered = true;
            emit comparisonFinished(std::make_shared<const Comparison>(std::move(*comparison)));
            return;
        }
    } else if (auto trace = runTraceFromJson(json, where.toStdString())) {
        d->delivered = true;
        emit runFinished(std::make_shared<const RunTrace>(std::move(*trace)));
        return;
    }
    d->errors += "\n" + tr("its result could not be read").toUtf8();
}

void RunProcess::onFinished(int exitCode, QProcess::ExitStatus status) {
    readLines();
    d->errors = (d->errors + d->process.readAllStandardError()).right(keptErrorBytes);
    if (d->stopping || exitCode == 130)
        emit cancelled();
    else if (!d->delivered || exitCode != 0 || status != QProcess::NormalExit)
        emit failed(lastWords(exitCode, status), exitCode);
    emit ended();
}

QString RunProcess::lastWords(int exitCode, QProcess::ExitStatus status) const {
    const QString words = QString::fromUtf8(d->errors).trimmed();
    if (status == QProcess::CrashExit)
        return tr("the run's process crashed. %1").arg(words);
    return words.isEmpty() ? tr("the run ended with exit code %1 and said nothing").arg(exitCode) : words;
}

} // namespace tpscope
