// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QTemporaryDir>

#include "models/planworkbench.h"
#include "models/runprocess.h"
#include "models/runstore.h"

namespace tpscope {

// Starts runs and comparisons of what the workbench looks at, one at a time, and writes what becomes of them into the
// store. What is run is the text that is shown: it is written to a temporary file first. Lives in the GUI thread.
class RunController : public QObject {
    Q_OBJECT

public:
    // Both must outlive the controller.
    RunController(const PlanWorkbench &workbench, RunStore &store, QObject *parent = nullptr);

    void setBackend(Backend backend) { m_backend = backend; }
    Backend backend() const { return m_backend; }
    void setNewTokens(int tokens) { m_newTokens = tokens; }
    int newTokens() const { return m_newTokens; }

    void run();
    void compareHooks();                          // module-backward against the chosen mode
    void comparePlans(const QString &beforePath); // another plan file against the text that is shown
    void stop();
    bool isRunning() const { return m_process.isRunning(); }

signals:
    void runningChanged(bool running);
    void said(const QString &line);       // what began or ended, for the log
    void progressed(const QString &line); // what is happening now
    void refused(const QString &why); // nothing was started

private:
    void begin(const QString &title, const QString &verb, const QStringList &options);
    QStringList commonOptions();
    QString planArgument();
    QString conditions() const;
    RunEntry current() const;
    void finish(RunEntry entry, const QString &state, const QString &message);

    const PlanWorkbench &m_workbench;
    RunStore &m_store;
    RunProcess m_process;
    QTemporaryDir m_folder;
    Backend m_backend = Backend::Simulated;
    int m_newTokens = 32;
    int m_entry = 0; // id in the store of what is running
};

} // namespace tpscope
