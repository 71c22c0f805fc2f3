// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/lintcontext.h"

#include <algorithm>

namespace tpscope {

Diagnostic &Findings::add(std::string_view code, std::string message) {
    const CodeInfo *info = findCode(code);
    Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.message = std::move(message);
    if (info) {
        diagnostic.severity = info->severity;
        diagnostic.trainingOnly = info->trainingOnly;
    }
    if (diagnostic.trainingOnly)
        onlyWhenTraining(diagnostic);
    m_diagnostics.push_back(std::move(diagnostic));
    return m_diagnostics.back();
}

void Findings::onlyWhenTraining(Diagnostic &diagnostic) const {
    diagnostic.trainingOnly = true;
    if (!m_options.train && diagnostic.severity == Severity::Error)
        diagnostic.severity = Severity::Warning;
}

std::vector<Diagnostic> Findings::take() {
    // Errors first, then by line; findings without a place behind those with one.
    const auto place = [](const Diagnostic &d) { return d.span.valid() ? d.span.line : 1 << 30; };
    std::ranges::stable_sort(m_diagnostics, [&](const Diagnostic &a, const Diagnostic &b) {
        return a.severity != b.severity ? a.severity < b.severity : place(a) < place(b);
    });
    return std::move(m_diagnostics);
}

std::int64_t dealtExperts(const ModelDescription &model, const EffectiveRule &rule, const std::string &parameter) {
    const std::size_t dot = parameter.rfind('.');
    const Module *owner = dot == std::string::npos ? nullptr : model.tree.find(parameter.substr(0, dot));
    const Parameter *own = owner ? owner->parameter(parameter.substr(dot + 1)) : nullptr;
    const bool deals = rule.style && rule.style->evenOnly && own && !own->shape.empty() &&
                       owner->attributes.contains("num_experts");
    return deals ? own->shape.front() : 0;
}

std::string folded(const LintContext &context, ModuleIndex module) {
    const Module &self = context.model.tree.at(module);
    return self.name.empty() ? self.className : genericName(self.name);
}

std::string inTicks(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string withRule(const LintContext &context, ModuleIndex module) {
    const EffectiveRule *rule = context.plan.ruleOfModule(module);
    return inTicks(folded(context, module)) + " (" + (rule ? rule->rule.style : std::string("no rule")) + ")";
}

std::string list(const std::vector<std::string> &items) {
    std::string out;
    for (std::size_t i = 0; i < items.size(); ++i)
        out += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
    return out;
}

std::string list(const std::vector<int> &numbers) {
    std::string out;
    for (const int number : numbers)
        out += (out.empty() ? "" : ", ") + std::to_string(number);
    return out;
}

std::string validSizesText(const LintContext &context) {
    return context.validTpSizes.empty() ? std::string() : "; valid tp sizes: " + list(context.validTpSizes);
}

void blame(Diagnostic &diagnostic, const EffectiveRule &rule) {
    diagnostic.rule = rule.rule.key;
    diagnostic.span = rule.rule.keySpan;
}

void blame(const LintContext &context, Diagnostic &diagnostic, const std::vector<ModuleIndex> &modules) {
    const EffectiveRule *chosen = nullptr;
    // The last module is the one where it happens; of rules of one origin its rule counts.
    for (const ModuleIndex module : modules) {
        std::vector<const EffectiveRule *> rules = {context.plan.ruleOfModule(module)};
        const Module &self = context.model.tree.at(module);
        for (const Parameter &parameter : self.parameters)
            rules.push_back(context.plan.ruleOfParameter(self.name + "." + parameter.name));
        for (const EffectiveRule *rule : rules)
            if (rule && (!chosen || rule->rule.keySpan.valid() || !chosen->rule.keySpan.valid()))
                chosen = rule;
    }
    if (chosen)
        blame(diagnostic, *chosen);
}

void addModules(const LintContext &context, Diagnostic &diagnostic, const std::vector<ModuleIndex> &modules) {
    for (const ModuleIndex module : modules) {
        std::string name = folded(context, module);
        if (std::ranges::find(diagnostic.modules, name) == diagnostic.modules.end())
            diagnostic.modules.push_back(std::move(name));
    }
}

void addModulesOf(const LintContext &context, Diagnostic &diagnostic, const EffectiveRule &rule) {
    addModules(context, diagnostic, rule.modules);
    for (const std::string &parameter : rule.parameters) {
        const std::size_t dot = parameter.rfind('.');
        if (const auto owner = context.model.tree.indexOf(dot == std::string::npos ? "" : parameter.substr(0, dot)))
            addModules(context, diagnostic, {*owner});
    }
}

} // namespace tpscope
