// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QString>
#include <QStringList>

// Runs the built tpscope and keeps what it said.
struct ProgramRun {
    int exitCode = -1;
    QByteArray out;
    QByteArray err;
    QJsonObject json() const { return QJsonDocument::fromJson(out).object(); }
};

inline ProgramRun runTpscope(const QStringList &arguments, int timeoutMs = 300000) {
    QProcess process;
    process.start(QStringLiteral(TPSCOPE_PROGRAM), arguments);
    ProgramRun run;
    if (!process.waitForFinished(timeoutMs)) {
        process.kill();
        process.waitForFinished();
        run.err = "timed out: " + process.readAllStandardError();
        return run;
    }
    run.exitCode = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
    run.out = process.readAllStandardOutput();
    run.err = process.readAllStandardError();
    return run;
}

inline QString fixture(const QString &relative) {
    return QStringLiteral(TPSCOPE_TEST_DATA "/fixtures/") + relative;
}

inline QJsonObject readObject(const QString &path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? QJsonDocument::fromJson(file.readAll()).object() : QJsonObject();
}

inline QString joined(const QJsonArray &numbers, const QString &separator = QStringLiteral(",")) {
    QStringList parts;
    for (const QJsonValue &number : numbers)
        parts << QString::number(number.toInteger());
    return parts.join(separator);
}
