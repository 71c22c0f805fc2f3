// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/codes.h"
#include "lint/flowindex.h"
#include "lint/layoutflow.h"
#include "lint/lint.h"

// What the rules of lint share. Internal to lint/.
namespace tpscope {

struct LintContext {
    const ModelDescription &model;
    const PlanChoice &choice;
    const BuiltinPlan *builtin = nullptr;
    const ResolvedPlan &plan;
    const LintOptions &options;
    int tp = 1;
    const LayoutFlow *flow = nullptr; // nullptr: the forward is not known, or the plan is refused
    FlowOptions inference;            // how the flow was run
    FlowOptions training;
    FlowResult forward;
    std::optional<FlowResult> backward; // only where the forward is right
    std::vector<int> validTpSizes;
    ShardLayout shards;

    const PlanDocument *document() const { return choice.document ? &*choice.document : nullptr; }
    std::string attention() const { return options.attention.empty() ? model.attention : options.attention; }
};

// Findings of one report. A rule adds to it; severity follows the table of codes.
class Findings {
public:
    explicit Findings(const LintOptions &options) : m_options(options) {}
    Diagnostic &add(std::string_view code, std::string message);
    // The finding holds only when training, whatever its code says.
    void onlyWhenTraining(Diagnostic &diagnostic) const;
    // The plan is refused at load for this.
    void reject() { m_rejected = true; }
    // The same, and another size may do.
    void rejectSize() { m_sizeRejected = true; }
    bool rejected() const { return m_rejected || m_sizeRejected; }
    bool rejectedAtAnySize() const { return m_rejected; }
    std::vector<Diagnostic> take();

private:
    const LintOptions &m_options;
    std::vector<Diagnostic> m_diagnostics;
    bool m_rejected = false;
    bool m_sizeRejected = false;
};

// Many findings of one kind for one cause become a few and one that counts the others.
inline constexpr std::size_t mostOfAKind = 100;

// How many experts the rule deals out of this parameter of its own; 0: it deals none.
std::int64_t dealtExperts(const ModelDescription &model, const EffectiveRule &rule, const std::string &parameter);

// The hooks sum a gradient that holds what they summed in an earlier backward (REFERENCE section 4).
bool sumsAgain(const LintOptions &options);

// The rules. Load: what upstream says of a plan before the first forward. Each file lists its rules.
void checkLoad(const LintContext &context, Findings &findings);
void checkExpertRules(const LintContext &context, Findings &findings); // of the load, where experts are concerned
void checkForward(const LintContext &context, Findings &findings);
void checkGradients(const LintContext &context, Findings &findings);
void tellFacts(const LintContext &context, Findings &findings);
void checkPortability(const LintContext &context, Findings &findings); // to options.target

// --- words ----------------------------------------------------------------------------------------------------------

// "model.layers.*.mlp.down_proj", in code quotes when shown.
std::string folded(const LintContext &context, ModuleIndex module);
std::string inTicks(std::string_view text); // `text`
// "`model.layers.*.mlp.down_proj` (rowwise)", "(no rule)".
std::string withRule(const LintContext &context, ModuleIndex module);
std::string list(const std::vector<std::string> &items); // "a, b and c"
std::string list(const std::vector<int> &numbers);
std::string validSizesText(const LintContext &context); // "; valid tp sizes: 1, 2, 4"
// Puts the rule a person would change into the finding: of those that act on the modules, the one written in the file.
void blame(const LintContext &context, Diagnostic &diagnostic, const std::vector<ModuleIndex> &modules);
void blame(Diagnostic &diagnostic, const EffectiveRule &rule);
// Adds folded names, each once.
void addModules(const LintContext &context, Diagnostic &diagnostic, const std::vector<ModuleIndex> &modules);
// The modules a rule acts on: those it names, and the owners of the parameters it names.
void addModulesOf(const LintContext &context, Diagnostic &diagnostic, const EffectiveRule &rule);

} // namespace tpscope
