// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QStringList>
#include <memory>
#include <vector>

#include "measure/comparison.h"
#include "run/runtrace.h"

namespace tpscope {

// A run or comparison as a process of the `tpscope` program, read through `--events -`. Lives in the GUI thread and
// never blocks it; a crash of the process is a failed run. Destroying it ends the process and its ranks.
class RunProcess : public QObject {
    Q_OBJECT

public:
    explicit RunProcess(QObject *parent = nullptr);
    ~RunProcess() override;

    // verb and options as on the command line, without --events. The program is found beside this one.
    void start(const QStringList &arguments);
    void stop(); // like Ctrl+C; killed when it does not end within 5 seconds
    bool isRunning() const;
    static QString programPath(); // $TPSCOPE_PROGRAM, else tpscope beside this program

signals:
    void progressed(const QString &phase, const QString &message, double fraction); // fraction < 0: unknown
    void eventsArrived(int rank, const std::vector<tpscope::Event> &events);
    void runFinished(std::shared_ptr<const tpscope::RunTrace> trace);       // verb run
    void comparisonFinished(std::shared_ptr<const tpscope::Comparison> comparison); // verb compare
    void failed(const QString &message, int exitCode); // the process's own words (stderr)
    void cancelled();
    void ended(); // after each of the above: nothing is running any more

private:
    void onFinished(int exitCode, QProcess::ExitStatus status);
    void onAllTold();
    QString lastWords(int exitCode, QProcess::ExitStatus status) const;
    struct Private;
    std::unique_ptr<Private> d;
};

} // namespace tpscope
