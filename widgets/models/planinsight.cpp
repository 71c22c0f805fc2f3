// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/planinsight.h"

#include <QCoreApplication>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace tpscope {
namespace {

QString tr(const char *text) { return QCoreApplication::translate("PlanInsight", text); }

QString from(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

QString bytesText(std::int64_t bytes) {
    return QString::fromStdString(formatBytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0))));
}

// Bytes of a rule's parameters by rank.
std::vector<std::int64_t> bytesOf(const PlanAnalysis &analysis, const EffectiveRule &rule) {
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(std::max(analysis.tp, 1)), 0);
    for (const std::string &parameter : rule.parameters)
        if (const ParameterShard *shard = analysis.shards.find(parameter))
            for (std::size_t rank = 0; rank < std::min(bytes.size(), shard->bytes.size()); ++rank)
                bytes[rank] += shard->bytes[rank];
    return bytes;
}

std::int64_t largest(const std::vector<std::int64_t> &values) {
    return values.empty() ? 0 : *std::ranges::max_element(values);
}

// "weight 512 x 64 -> 256 x 64, shard(0)"; the local shape of each rank where they differ.
QString shardLine(const ParameterShard &shard) {
    QStringList locals;
    for (const Shape &shape : shard.localShapes)
        if (const QString text = shapeText(shape); locals.isEmpty() || locals.back() != text)
            locals << text;
    const QString parameter = from(shard.name).section(QLatin1Char('.'), -1);
    const QString global = shapeText(shard.globalShape);
    if (locals.isEmpty() || (locals.size() == 1 && locals.front() == global))
        return tr("%1  %2, whole on each rank (%3)").arg(parameter, global, placementText(shard));
    return tr("%1  %2 \u2192 %3 on a rank, %4").arg(parameter, global, locals.join(tr(" or ")), placementText(shard));
}

QString matchLine(const PlanAnalysis &analysis, const EffectiveRule &rule) {
    const ModuleTree &tree = analysis.workspace->model.tree;
    if (!rule.matches)
        return tr("matches nothing in %1").arg(from(analysis.workspace->model.className));
    if (rule.modules.empty())
        return tr("matches %n parameter(s)").replace(QLatin1String("%n"), QString::number(rule.parameters.size()));
    const Module &first = tree.at(rule.modules.front());
    QString line = tr("matches %1 \u00D7 %2").arg(rule.modules.size()).arg(from(first.className));
    if (rule.modules.size() > 1)
        line += tr(": layers %1 to %2")
                    .arg(from(first.name).section(QLatin1String("layers."), 1).section(QLatin1Char('.'), 0, 0),
                         from(tree.at(rule.modules.back()).name)
                             .section(QLatin1String("layers."), 1)
                             .section(QLatin1Char('.'), 0, 0));
    return line;
}

} // namespace

QString shapeText(const Shape &shape) {
    QStringList sizes;
    for (const std::int64_t size : shape)
        sizes << QString::number(size);
    return sizes.join(QStringLiteral(" \u00D7 "));
}

QString placementText(const ParameterShard &shard) {
    switch (shard.placement.kind) {
    case PlacementKind::PlainTensor:
    case PlacementKind::Replicate: return tr("replicated");
    case PlacementKind::Shard: return tr("shard(%1)").arg(shard.dim);
    case PlacementKind::StridedShard: return tr("strided(%1)").arg(shard.dim);
    }
    return {};
}

std::vector<Diagnostic> findingsOf(const PlanAnalysis &analysis) {
    if (!analysis.unreadable)
        return analysis.lint.diagnostics;
    Diagnostic broken;
    broken.code = "YAML";
    broken.message = analysis.unreadable->message;
    if (analysis.unreadable->location) {
        broken.span.line = analysis.unreadable->location->line;
        broken.span.column = std::max(analysis.unreadable->location->column, 1);
    }
    return {broken};
}

const EffectiveRule *ruleAtLine(const PlanAnalysis &analysis, int line) {
    for (const EffectiveRule &rule : analysis.plan.rules)
        if (rule.rule.origin == RuleOrigin::File && rule.rule.keySpan.line == line)
            return &rule;
    return nullptr;
}

std::vector<const EffectiveRule *> inheritedRules(const PlanAnalysis &analysis) {
    std::vector<const EffectiveRule *> rules;
    for (const EffectiveRule &rule : analysis.plan.rules)
        if (rule.rule.origin != RuleOrigin::File)
            rules.push_back(&rule);
    return rules;
}

QString originText(RuleOrigin origin) {
    switch (origin) {
    case RuleOrigin::File: return tr("this plan");
    case RuleOrigin::ConfigPlan: return tr("the model's built-in plan");
    case RuleOrigin::ClassRule: return tr("the model class");
    case RuleOrigin::DefaultEmbedding: return tr("default for embeddings");
    }
    return {};
}

RuleMargin ruleMargin(const PlanAnalysis &analysis, const EffectiveRule &rule) {
    const std::size_t count = rule.modules.empty() ? rule.parameters.size() : rule.modules.size();
    if (!rule.matches || count == 0)
        return {tr("no match"), {}};
    return {QStringLiteral("\u00D7%1").arg(count), bytesText(largest(bytesOf(analysis, rule)))};
}

QStringList collectivesOf(const ParallelStyle &style) {
    QStringList lines;
    if (style.output == ParallelStyle::Output::Reduce)
        lines << tr("forward: all-reduce of its output, once a call");
    if (style.output == ParallelStyle::Output::Gather)
        lines << tr("forward: all-gather of its output, once a call");
    if (style.sumsInputGradient)
        lines << tr("backward: all-reduce of its input's gradient");
    if (style.sync == ParallelStyle::Sync::Sum)
        lines << tr("backward: all-reduce of its own gradients, by a hook");
    if (style.sync == ParallelStyle::Sync::RopeColumns)
        lines << tr("backward: all-reduce of the gradients of its rope columns, by a hook");
    if (lines.isEmpty())
        lines << tr("no collective");
    return lines;
}

QString ruleHover(const PlanAnalysis &analysis, const EffectiveRule &rule) {
    QStringList lines{matchLine(analysis, rule)};
    if (!rule.style)
        return (lines << tr("%1 is no style transformers knows").arg(from(shortened(rule.rule.style))))
            .join(QLatin1Char('\n'));
    lines << QStringLiteral("%1: %2").arg(from(rule.style->name), from(rule.style->summary));
    int shown = 0;
    const std::string first =
        rule.modules.empty() ? std::string() : analysis.workspace->model.tree.at(rule.modules.front()).name;
    for (const std::string &parameter : rule.parameters) {
        const ParameterShard *shard = analysis.shards.find(parameter);
        if (shard && parameter.starts_with(first) && shown++ < 3)
            lines << shardLine(*shard);
    }
    const std::vector<std::int64_t> bytes = bytesOf(analysis, rule);
    if (!rule.parameters.empty())
        lines << tr("%1 on the fullest of %2 ranks").arg(bytesText(largest(bytes))).arg(bytes.size());
    lines << collectivesOf(*rule.style);
    return lines.join(QLatin1Char('\n'));
}

std::optional<ModuleIndex> moduleByName(const ModuleTree &tree, const QString &name) {
    const std::string wanted = name.toStdString();
    if (const auto exact = tree.indexOf(wanted))
        return exact;
    for (std::size_t i = 0; i < tree.modules.size(); ++i)
        if (genericName(tree.modules[i].name) == wanted)
            return ModuleIndex(i);
    return std::nullopt;
}

SourceSpan ruleSpanOf(const PlanAnalysis &analysis, const QString &moduleName) {
    if (!analysis.workspace)
        return {};
    const auto index = moduleByName(analysis.workspace->model.tree, moduleName);
    const EffectiveRule *rule = nullptr;
    if (index)
        rule = analysis.plan.ruleOfModule(*index);
    else
        for (const EffectiveRule &candidate : analysis.plan.rules)
            if (candidate.rule.key == moduleName.toStdString())
                rule = &candidate;
    return rule && rule->rule.origin == RuleOrigin::File ? rule->rule.keySpan : SourceSpan{};
}

std::vector<Completion> keyCompletions(const Workspace &workspace) {
    struct Hits {
        int count = 0;
        std::string className;
    };
    std::vector<std::string> order;
    std::map<std::string, Hits> hits;
    const auto count = [&](const std::string &key, const std::string &className) {
        Hits &hit = hits[key];
        if (hit.count++ > 0)
            return;
        order.push_back(key);
        hit.className = className;
    };
    for (const Module &module : workspace.model.tree.modules) {
        const std::string key = genericName(module.name);
        if (key.empty() || key.ends_with("*"))
            continue;
        count(key, module.className);
        // Experts keep their products in parameters of other names, and rules name those.
        for (const Parameter &parameter : module.parameters)
            if (parameter.name != "weight" && parameter.name != "bias")
                count(key + "." + parameter.name, "parameter of " + module.className);
    }
    std::vector<Completion> out;
    for (const std::string &key : order)
        out.push_back({from(key), QStringLiteral("%1 \u00D7 %2").arg(hits[key].count).arg(from(hits[key].className))});
    return out;
}

std::vector<Completion> styleCompletions(bool ofExperts) {
    std::vector<Completion> out;
    std::vector<Completion> others;
    for (const ParallelStyle &style : parallelStyles())
        (style.expertParallel ? out : others).push_back({from(style.name), from(style.summary)});
    if (!ofExperts)
        return others;
    out.insert(out.end(), others.begin(), others.end());
    return out;
}

QString outcomeText(const PlanAnalysis &analysis) {
    if (analysis.unreadable)
        return tr("the plan cannot be read");
    const LintReport &report = analysis.lint;
    return tr("%1 \u2013 transformers %2, %3, %4")
        .arg(from(name(report.outcome)), from(report.upstream), from(report.attention), from(report.dtype));
}

} // namespace tpscope
