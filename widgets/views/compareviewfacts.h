// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <memory>
#include <vector>

#include "measure/comparison.h"
#include "plot/countertiles.h"
#include "session/workspace.h"

// What the view "Compare" says. Pure functions; GUI thread for tr().
namespace tpscope {

struct VerdictWords {
    QString mark;     // a shape: never a colour alone
    QString headline; // "Faster: 6.80 ms less a token (-38.1 %)"
    QString reason;   // why the verdict is what it is
};
VerdictWords verdictWords(const Comparison &comparison);

std::vector<CounterTile> comparisonTiles(const Comparison &comparison);

// One rule that the sides' plans treat differently; "" where a side has none.
struct RuleDifference {
    QString pattern;
    QString before;
    QString after;
    bool operator==(const RuleDifference &) const = default;
};
struct PlanDifference {
    QString summary; // "both sides ran the same plan, auto", "2 rules differ", "the recording does not say ..."
    std::vector<RuleDifference> rules;
};
// workspace: of the open model, for rules that a plan file inherits; may be null, and is used only when both sides ran
// this model (modelArgument); else the texts of the plans are compared as written.
PlanDifference planDifference(const Comparison &comparison, const Workspace *workspace, const QString &modelArgument);

} // namespace tpscope
