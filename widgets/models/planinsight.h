// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>
#include <optional>
#include <vector>

#include "session/workspace.h"

// What is said about a place of a plan: texts for the editor's margin, hover and completion, and for the details. Pure
// functions of one immutable analysis; any thread.
namespace tpscope {

// The findings of an analysis; a text that cannot be read is one finding with the code "YAML".
std::vector<Diagnostic> findingsOf(const PlanAnalysis &analysis);

// The effective rule written at a line (from 1) of the analysed text; nullptr: none.
const EffectiveRule *ruleAtLine(const PlanAnalysis &analysis, int line);

// The rules in force that the text does not hold, in upstream's order.
std::vector<const EffectiveRule *> inheritedRules(const PlanAnalysis &analysis);
QString originText(RuleOrigin origin); // "the plan file", "the model's built-in plan", ...

// "x36" and "8.4 MB": modules (or parameters) it applies to, bytes of its parameters on the fullest rank.
struct RuleMargin {
    QString count; // "no match"
    QString bytes;
};
RuleMargin ruleMargin(const PlanAnalysis &analysis, const EffectiveRule &rule);
// What the rule matches, shapes, collectives; some lines of plain text, none longer than about 90 characters.
QString ruleHover(const PlanAnalysis &analysis, const EffectiveRule &rule);
// The collectives and hooks a style causes, a line each, by its row of the style table.
QStringList collectivesOf(const ParallelStyle &style);

// The first module a name as Selection speaks it stands for ("model.layers.*.mlp").
std::optional<ModuleIndex> moduleByName(const ModuleTree &tree, const QString &name);
// Where the rule for a module or parameter stands in the text; line 0: nowhere.
SourceSpan ruleSpanOf(const PlanAnalysis &analysis, const QString &moduleName);

struct Completion {
    QString text;  // what is inserted
    QString about; // a few words beside it
};
// Keys of the model in call order, with what each matches: "2 x Linear".
std::vector<Completion> keyCompletions(const Workspace &workspace);
// Styles with their summaries: those a tp_plan takes; for an ep_plan its own ones first, then these.
std::vector<Completion> styleCompletions(bool ofExperts = false);

QString shapeText(const Shape &shape); // "4096 x 1024" with the real sign
QString placementText(const ParameterShard &shard);

// One line on the outcome: "ok by rule - transformers 5.24, sdpa, float32".
QString outcomeText(const PlanAnalysis &analysis);

} // namespace tpscope
