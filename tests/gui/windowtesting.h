// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSignalSpy>
#include <QTest>
#include <QTreeView>

#include "models/planworkbench.h"

// What tests of the window share: the bundled model and plans to open it with.
namespace tpscope::windowtesting {

constexpr int patienceMs = 20000;

inline const char rightPlan[] = "# a plan\n"
                                "model_type: qwen3\n"
                                "base: none\n"
                                "tp_plan:\n"
                                "  model.layers.*.self_attn.q_proj: colwise\n"
                                "  model.layers.*.self_attn.k_proj: colwise\n"
                                "  model.layers.*.self_attn.v_proj: colwise\n"
                                "  model.layers.*.self_attn.o_proj: rowwise\n";

inline QByteArray wrongPlan() { return QByteArray(rightPlan).replace("k_proj: colwise", "k_proj: colwize"); }

// Waits until the newest text is analysed.
inline bool analysed(const PlanWorkbench &workbench) {
    return QTest::qWaitFor([&] { return workbench.workspace() && workbench.analysisIsCurrent(); }, patienceMs);
}

inline bool openTiny(PlanWorkbench &workbench) {
    workbench.openModel(QStringLiteral("qwen3-tiny"));
    return analysed(workbench);
}

} // namespace tpscope::windowtesting
