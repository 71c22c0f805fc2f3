// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/lint.h"

#include <algorithm>

#include "lint/lintcontext.h"
#include "model/trainable.h"

namespace tpscope {
namespace {

constexpr int largestTp = 64;

ParameterSync syncOf(const LintOptions &options) {
    if (options.hooks == "none")
        return ParameterSync::None;
    return options.hooks == "module-backward" ? ParameterSync::BeforeInputGradient : ParameterSync::Exact;
}

bool wrongGradients(const FlowResult &result, const LintOptions &options) {
    return result.fails || result.wrongOutput ||
           std::ranges::any_of(result.gradients, [&](const ParameterGradient &gradient) {
               return !gradient.final.right() || (gradient.sums > 0 && sumsAgain(options));
           });
}

// Runs the layout flow for the size asked for, and for every other size for its verdict alone.
class FlowChecks {
public:
    FlowChecks(LintContext &context, const LayoutFlow &flow) : m_context(context), m_flow(flow) {
        m_trainable = trainableFlags();
        FlowOptions &inference = context.inference;
        inference.attention = context.attention();
        inference.promptTokens = context.options.promptTokens;
        inference.paddedPrompts = context.options.paddedPrompts;
        context.training = inference;
        context.training.gradients = true;
        context.training.everyLayer = true;
        context.training.sync = syncOf(context.options);
        context.training.trainable = &m_trainable;
    }

    void check() {
        m_context.forward = m_flow.run(m_context.tp, m_context.inference);
        if (m_context.forward.right())
            m_context.backward = m_flow.run(m_context.tp, m_context.training);
        findSizes();
    }

    void findSizes() {
        for (int tp = 1; tp <= largestTp; ++tp)
            if (isValid(tp))
                m_context.validTpSizes.push_back(tp);
    }

private:
    bool dealsEvenly(int tp) const {
        return std::ranges::all_of(m_context.plan.rules, [&](const EffectiveRule &rule) {
            return rule.parameters.empty() || dealtExperts(m_context.model, rule, rule.parameters.front()) % tp == 0;
        });
    }

    bool isValid(int tp) const {
        if (!dealsEvenly(tp))
            return false;
        FlowOptions options = m_context.inference;
        options.stopAtError = true;
        const FlowResult forward = m_flow.run(tp, options);
        if (!forward.right() || !m_context.options.train || tp == 1)
            return forward.right();
        FlowOptions training = m_context.training;
        training.stopAtError = true;
        training.everyLayer = false;
        return !wrongGradients(m_flow.run(tp, training), m_context.options);
    }

    std::vector<bool> trainableFlags() const {
        std::vector<bool> flags;
        for (const std::string &name : m_flow.index().parameterNames())
            flags.push_back(trains(name, m_context.options.trainable));
        return flags;
    }

    LintContext &m_context;
    const LayoutFlow &m_flow;
    std::vector<bool> m_trainable;
};

Outcome outcomeOf(const LintContext &context, const Findings &findings) {
    // On one rank upstream looks at the sizes alone.
    if (context.tp < 1 || (findings.rejected() && (context.tp > 1 || context.plan.ep != 1)))
        return Outcome::Rejected;
    if (!context.model.flowKnown())
        return Outcome::NotChecked;
    if (context.forward.fails)
        return Outcome::ForwardError;
    if (context.forward.wrongOutput)
        return Outcome::WrongLogits;
    if (context.forward.untracked)
        return Outcome::NotChecked;
    const bool nothingTrains =
        context.tp > 1 && !context.options.trainable.empty() && context.backward && context.backward->gradients.empty();
    if (context.options.train && context.backward &&
        (nothingTrains || wrongGradients(*context.backward, context.options)))
        return Outcome::WrongGradients;
    return Outcome::Ok;
}

void fillReport(const LintContext &context, LintReport &report) {
    report.upstream = context.options.upstream.text();
    report.attention = context.attention();
    report.dtype = torchName(context.model.dtype);
    report.validTpSizes = context.validTpSizes;
    report.shardedFraction = context.shards.shardedFraction();
    report.bytesPerRank = context.shards.bytesPerRank;
    if (context.backward && !context.backward->fails)
        for (const ParameterGradient &gradient : context.backward->gradients)
            if (!gradient.final.right() || (gradient.sums > 0 && sumsAgain(context.options)))
                report.wrongParameters.push_back(
                    context.flow->index().parameterNames()[static_cast<std::size_t>(gradient.parameter)]);
}

} // namespace

std::string_view name(Severity severity) {
    switch (severity) {
    case Severity::Error: return "error";
    case Severity::Warning: return "warning";
    case Severity::Info: return "info";
    }
    return "info";
}

std::string_view name(Outcome outcome) {
    switch (outcome) {
    case Outcome::Rejected: return "rejected";
    case Outcome::ForwardError: return "forward-error";
    case Outcome::WrongLogits: return "wrong-logits";
    case Outcome::WrongGradients: return "wrong-gradients";
    case Outcome::Ok: return "ok";
    case Outcome::NotChecked: return "not-checked";
    }
    return "not-checked";
}

bool sumsAgain(const LintOptions &options) {
    return options.microSteps > 1 && (options.hooks == "post-accumulate-grad" || options.hooks == "module-backward");
}

int LintReport::errors() const {
    return static_cast<int>(std::ranges::count(diagnostics, Severity::Error, &Diagnostic::severity));
}

int LintReport::warnings() const {
    return static_cast<int>(std::ranges::count(diagnostics, Severity::Warning, &Diagnostic::severity));
}

LintReport lint(const ModelDescription &model, const PlanChoice &choice, const BuiltinPlan *builtin, int tp,
                const LintOptions &options) {
    const ResolvedPlan plan = resolvePlan(model, choice, builtin, std::max(tp, 1));
    LintContext context{model, choice, builtin, plan, options, tp, nullptr, {}, {}, {}, {}, {}, {}};
    context.shards = shardLayout(model, plan);

    Findings findings(options);
    checkLoad(context, findings);
    std::optional<LayoutFlow> flow;
    std::optional<FlowChecks> checks;
    if (findings.rejectedAtAnySize() || plan.emptyMapping || plan.noPlan) {
        context.validTpSizes = {1}; // where upstream applies no plan
    } else if (model.flowKnown()) {
        context.flow = &flow.emplace(model, plan);
        checks.emplace(context, *flow);
        if (findings.rejected())
            checks->findSizes();
        else
            checks->check();
        checkForward(context, findings);
        checkGradients(context, findings);
    } else {
        findings.add(code::notChecked, "the forward of " + model.className +
                                           " is not described: results are not checked, only names, shards and bytes");
    }
    if (!findings.rejected())
        tellFacts(context, findings);
    checkPortability(context, findings);

    LintReport report;
    report.outcome = outcomeOf(context, findings);
    fillReport(context, report);
    report.diagnostics = findings.take();
    return report;
}

} // namespace tpscope
