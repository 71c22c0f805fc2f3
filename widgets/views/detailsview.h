// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QTextBrowser>
#include <memory>

#include "session/workspace.h"

namespace tpscope {

class PlanWorkbench;
class Selection;

// All that is known of the selected module: parameters on each rank, rule and where it stands, collectives, hook,
// findings. Links go to the plan's line. GUI thread.
class DetailsView : public QTextBrowser {
    Q_OBJECT

public:
    // Both must outlive the view.
    DetailsView(PlanWorkbench *workbench, Selection *selection, QWidget *parent = nullptr);
    void refresh();

private:
    PlanWorkbench *m_workbench;
    Selection *m_selection;
    std::shared_ptr<const PlanAnalysis> m_shown; // the last one that could be read
};

} // namespace tpscope
