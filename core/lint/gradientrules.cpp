// SPDX-License-Identifier: GPL-3.0-or-later
// Findings of the backward, and of hooks that sum gradients.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "lint/expertstories.h"

namespace tpscope {
namespace {

using Candidates = std::vector<std::vector<RuleChange>>;

struct Told {
    std::string_view code;
    std::string message;
    Candidates candidates;
    std::string advice = {}; // where no edit of the plan helps
};

// Names of the parameters a finding spoils, folded; long lists are cut.
std::string spoiled(const FlowFinding &finding) {
    std::vector<std::string> names;
    for (const std::string &name : finding.parameters) {
        std::string generic = inTicks(genericName(name));
        if (std::ranges::find(names, generic) == names.end())
            names.push_back(std::move(generic));
    }
    const std::size_t shown = 4;
    if (names.size() > shown + 1) {
        const std::size_t more = names.size() - shown;
        names.resize(shown);
        names.push_back(std::to_string(more) + " more");
    }
    return list(names);
}

std::vector<std::string> layersOf(const FlowFinding &finding) {
    std::vector<std::string> modules;
    for (const std::string &name : finding.parameters) {
        std::string module = inTicks(name.substr(0, name.rfind('.')));
        if (std::ranges::find(modules, module) == modules.end())
            modules.push_back(std::move(module));
    }
    return modules;
}

Told share(const LintContext &context, const FlowFinding &finding) {
    const std::string here = withRule(context, finding.module);
    const ParallelStyle *style = context.flow->index().style(finding.module);
    if (style && style->hooksParameters() && context.training.sync == ParameterSync::BeforeInputGradient)
        return {code::hookTooEarly,
                "the module-backward hook of " + here +
                    " runs before its gradient exists, since the module's input needs none: " +
                    list(layersOf(finding)) + " stays unreduced, each rank with its own share",
                {},
                "use post-accumulate-grad hooks (transformers 5.22 on)"};
    if (style && style->hooksParameters())
        return {code::gradientShare,
                "without hooks each rank keeps only its share of the gradient of " + inTicks(finding.parameter) + " of " + here,
                {},
                "use post-accumulate-grad hooks"};
    if (style && style->dispatchesTokens)
        return {code::gradientShare,
                here + " sends all tokens to rank 0, since every rank has all experts of " + inTicks(finding.parameter) +
                    ": the other ranks get no gradient",
                expertStyles(context, finding.module)};
    return {code::gradientShare,
            "partial gradient: each rank sees only its own part of what " + here + " works on, and nothing sums the gradient of " +
                inTicks(finding.parameter) + " over the ranks",
            {{{folded(context, finding.module), summingStyle()}}}};
}

Told repeated(const LintContext &context, const FlowFinding &finding) {
    const std::string here = withRule(context, finding.module);
    const std::string tp = std::to_string(context.tp);
    const Candidates cancel = {{{folded(context, finding.module), plainStyle()}}};
    if (finding.parameter.empty())
        return {code::gradientRepeated,
                here + " sums a gradient over the ranks that each of them already has: " + spoiled(finding) +
                    " get wrong gradients",
                cancel};
    return {code::gradientRepeated,
            here + " sums the gradient of " + inTicks(finding.parameter) +
                " over the ranks, but each rank already has the whole one: " + tp + " times too large",
            cancel};
}

Told tell(const LintContext &context, const FlowFinding &finding) {
    const std::string here = withRule(context, finding.module);
    switch (finding.cause) {
    case FlowCause::GradientShare: return share(context, finding);
    case FlowCause::GradientRepeated: return repeated(context, finding);
    case FlowCause::SharedHeads: {
        std::vector<std::string> sides;
        for (const FlowSide &side : finding.sides)
            sides.push_back(withRule(context, side.module) + " gives each rank " + side.holds.text());
        return {code::sharedHeads,
                "the key/value heads lie on several ranks and each sends back only the share of its own query heads (" +
                    list(sides) + "): wrong gradients for " + spoiled(finding),
                {gatherAttention(context, finding.module)}};
    }
    case FlowCause::LinearShare:
        return {code::inputGradientShare,
                here + " sends back only what its own output channels know, and nothing sums it: wrong gradients for " +
                    spoiled(finding),
                otherStyles(context, finding.module)};
    case FlowCause::InPlace:
        return {code::callForm,
                here + " changes the output of a styled module in place; with gradients that is a view of a DTensor: the "
                       "training forward fails",
                otherStyles(context, finding.sides.empty() ? finding.module : finding.sides.front().module)};
    case FlowCause::WholeTraining:
        return {code::wholeInTraining,
                inTicks(folded(context, finding.module) + "." + finding.parameter) +
                    " is a plain tensor, and with gradients " + here + " computes with DTensors: the training forward fails",
                otherStyles(context, finding.module)};
    default:
        return {code::reducedTwice,
                here + " sums over the ranks what each has whole; the gradients before it are " +
                    std::to_string(context.tp) + " times too small",
                {{{folded(context, finding.module), plainStyle()}}}};
    }
}

void backwardFindings(const LintContext &context, Findings &findings) {
    if (!context.backward)
        return;
    for (const FlowFinding &finding : context.backward->findings) {
        if (finding.harmless)
            continue;
        Told told = tell(context, finding);
        Diagnostic &diagnostic = findings.add(told.code, std::move(told.message));
        findings.onlyWhenTraining(diagnostic);
        std::vector<ModuleIndex> modules;
        for (const FlowSide &side : finding.sides)
            modules.push_back(side.module);
        if (modules.empty() || finding.cause == FlowCause::WholeTraining)
            modules = {finding.module};
        addModules(context, diagnostic, modules);
        blame(context, diagnostic, modules);
        diagnostic.fix = told.advice.empty() ? provenFix(context, finding, true, told.candidates)
                                             : Fix{std::move(told.advice), {}};
    }
}

void accumulation(const LintContext &context, Findings &findings) {
    const int steps = context.options.microSteps;
    if (!sumsAgain(context.options) || context.tp <= 1 || !context.backward)
        return;
    const double tp = context.tp;
    char ratio[32];
    std::snprintf(ratio, sizeof ratio, "%.4g", (std::pow(tp, steps) - 1) / ((tp - 1) * steps));
    std::vector<ModuleIndex> modules;
    for (std::size_t i = 0; i < context.model.tree.modules.size(); ++i) {
        const ParallelStyle *style = context.flow->index().style(ModuleIndex(i));
        if (style && style->hooksParameters() && !context.model.tree.modules[i].parameters.empty())
            modules.push_back(ModuleIndex(i));
    }
    if (modules.empty())
        return;
    Diagnostic &diagnostic = findings.add(code::accumulation, "");
    addModules(context, diagnostic, modules);
    std::vector<std::string> names;
    for (const std::string &name : diagnostic.modules)
        names.push_back(inTicks(name));
    diagnostic.message = context.options.hooks + " hooks sum the accumulated gradient in each of " +
                         std::to_string(steps) + " backwards: that of " + list(names) + " becomes " + ratio +
                         " times the right sum; under FSDP only where its own synchronisation is deferred";
    diagnostic.fix = Fix{"use one backward per optimizer step, or hooks of the tensor-grad kind", {}};
    blame(context, diagnostic, modules);
}

// Source: torch 2.13 nn/utils/clip_grad.py; a list of plain tensors and DTensors raises.
void normOfMixedGradients(const LintContext &context, Findings &findings) {
    if (context.tp <= 1 || !context.options.train || !context.backward)
        return;
    std::vector<std::string> sharded, whole;
    for (const ParameterGradient &gradient : context.backward->gradients) {
        const std::string &name = context.flow->index().parameterNames()[static_cast<std::size_t>(gradient.parameter)];
        const ParallelStyle *style = context.plan.styleOfParameter(name);
        const bool cut = style && style->weightAxis != ParallelStyle::WeightAxis::None;
        std::vector<std::string> &kind = cut ? sharded : whole;
        const std::string module = genericName(name.substr(0, name.rfind('.')));
        if (std::ranges::find(kind, module) == kind.end())
            kind.push_back(module);
    }
    if (sharded.empty() || whole.empty())
        return;
    const auto text = [](const std::vector<std::string> &names) {
        return inTicks(names.front()) +
               (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : std::string());
    };
    Diagnostic &diagnostic =
        findings.add(code::mixedNorm, "clipping by norm raises: the gradients of " + text(whole) +
                                          " are plain tensors, those of " + text(sharded) +
                                          " DTensors, and torch's clip_grad_norm_ takes no mix");
    diagnostic.modules = whole;
    diagnostic.fix = Fix{"take the norm of the DTensors and that of the plain tensors apart, so that each parameter "
                         "counts once, and scale all gradients by the total",
                         {}};
    if (!context.options.clipsGradients)
        diagnostic.severity = Severity::Info; // nobody asked for it
}

void nothingTrains(const LintContext &context, Findings &findings) {
    if (!context.options.train || context.options.trainable.empty() || !context.training.trainable ||
        std::ranges::find(*context.training.trainable, true) != context.training.trainable->end())
        return;
    std::vector<std::string> patterns;
    for (const std::string &pattern : context.options.trainable)
        patterns.push_back(inTicks(shortened(pattern)));
    findings.add(code::nothingTrains, "nothing is trained: no parameter of " + context.model.className +
                                          " has a name like " + list(patterns) + ", and a backward raises");
}

} // namespace

void checkGradients(const LintContext &context, Findings &findings) {
    nothingTrains(context, findings);
    backwardFindings(context, findings);
    normOfMixedGradients(context, findings);
    accumulation(context, findings);
}

} // namespace tpscope
