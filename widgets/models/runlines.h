// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QObject>
#include <QThreadPool>
#include <memory>
#include <vector>

#include "measure/comparison.h"
#include "run/runtrace.h"

namespace tpscope {

// Reads the lines of `--events`. A result may be megabytes, so lines are parsed on a worker; what they say is told in
// their order, queued, in the thread of this object. Lines that are not JSON, or of an unknown type, are passed over.
class RunLines : public QObject {
    Q_OBJECT

public:
    explicit RunLines(QObject *parent = nullptr);
    ~RunLines() override; // waits for the line being parsed; tells nothing any more

    void feed(const QByteArray &bytes); // any part of the output; returns before anything is told
    void finish();                      // no more is coming: what is left is a line too; then finished()

signals:
    void progressed(const QString &phase, const QString &message, double fraction); // fraction < 0: unknown
    void eventsArrived(int rank, const std::vector<tpscope::Event> &events);
    void runFinished(std::shared_ptr<const tpscope::RunTrace> trace);
    void comparisonFinished(std::shared_ptr<const tpscope::Comparison> comparison);
    void unreadableResult(const QString &why);
    void finished(); // after all the others

private:
    struct Said;
    static Said parsed(const QByteArray &line);
    void parseLater(const QByteArray &line);
    void tell(const Said &said);

    QByteArray m_rest; // a line without its end
    QThreadPool m_pool;
};

} // namespace tpscope
