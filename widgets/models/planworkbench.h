// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <memory>
#include <optional>

#include "session/workspace.h"

namespace tpscope {

// What is being looked at: a model, the text of a plan, a tp size, a hook mode; and the analysis of exactly these.
// The plan's text belongs to the editor: this object holds a copy per change and never edits it. Views read the shared,
// immutable analysis and keep it as long as they like. Lives in the GUI thread; opening and analysing run on a worker.
class PlanWorkbench : public QObject {
    Q_OBJECT

public:
    explicit PlanWorkbench(QObject *parent = nullptr);
    ~PlanWorkbench() override; // waits for the running job; nothing is delivered afterwards

    // Opens a model: folder, config.json, bundled or hub name. Ends in modelOpened or failed.
    void openModel(const QString &argument);
    // The editor's text changed (kind Document), or auto / none is looked at. Newer requests make older ones stale.
    void setPlanText(const QString &text, const QString &fileName);
    void setAutoPlan();
    void setTp(int tp);
    void setHooks(HookMode hooks);
    void setTraining(bool training, int microSteps);

    QString modelArgument() const;
    QString planText() const;     // empty for auto
    QString planFileName() const; // empty: not saved yet, or auto
    int tp() const;
    HookMode hooks() const;
    std::shared_ptr<const Workspace> workspace() const;      // null until a model is open
    std::shared_ptr<const PlanAnalysis> analysis() const;    // the newest finished one; null before the first
    bool analysisIsCurrent() const;                          // false while a newer text is being analysed

signals:
    void modelOpened(std::shared_ptr<const tpscope::Workspace> workspace);
    void analysisChanged(std::shared_ptr<const tpscope::PlanAnalysis> analysis);
    void settingsChanged(); // tp, hooks, training
    void failed(const QString &message);

private:
    void reanalyse();
    struct Private;
    std::unique_ptr<Private> d;
};

} // namespace tpscope
