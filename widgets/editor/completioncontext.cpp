// SPDX-License-Identifier: GPL-3.0-or-later
#include "editor/completioncontext.h"

#include <QCoreApplication>

#include <algorithm>

namespace tpscope {
namespace {

QString tr(const char *text) { return QCoreApplication::translate("Completion", text); }

int indentOf(const QByteArray &line) {
    int indent = 0;
    while (indent < line.size() && line[indent] == ' ')
        ++indent;
    return indent;
}

// The key of the mapping a line with this indentation stands in; "" at top level.
QByteArray parentKey(const std::vector<QByteArray> &lines, int indent) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        const QByteArray text = line->trimmed();
        if (text.isEmpty() || text.startsWith('#') || indentOf(*line) >= indent)
            continue;
        return text.left(std::max<qsizetype>(text.indexOf(':'), 0));
    }
    return {};
}

bool isPlan(const QByteArray &key) { return key == "tp_plan" || key == "ep_plan"; }

CompletionContext valueContext(const std::vector<QByteArray> &lines, const QByteArray &before, qsizetype colon) {
    CompletionContext context;
    int start = static_cast<int>(colon) + 1;
    while (start < before.size() && before[start] == ' ')
        ++start;
    context.start = start;
    context.typed = QString::fromUtf8(before.mid(start));
    const QByteArray key = before.left(colon).trimmed();
    const int indent = indentOf(before);
    if (indent == 0 && key == "base")
        context.kind = CompletionContext::Kind::Base;
    else if (const QByteArray parent = parentKey(lines, indent); indent > 0 && isPlan(parent)) {
        context.kind = CompletionContext::Kind::Style;
        context.ofExperts = parent == "ep_plan";
    }
    return context;
}

} // namespace

CompletionContext completionContext(const std::vector<QByteArray> &lines, const QByteArray &before) {
    if (before.contains('#'))
        return {};
    if (const qsizetype colon = before.indexOf(": "); colon >= 0)
        return valueContext(lines, before, colon);
    CompletionContext context;
    const int indent = indentOf(before);
    context.start = indent;
    context.typed = QString::fromUtf8(before.mid(indent));
    if (before.contains(':'))
        return {};
    if (indent == 0)
        context.kind = CompletionContext::Kind::TopLevel;
    else if (isPlan(parentKey(lines, indent)))
        context.kind = CompletionContext::Kind::Key;
    return context;
}

std::vector<Completion> matching(const std::vector<Completion> &all, const QString &typed) {
    QString word = typed;
    if (word.startsWith(QLatin1Char('"')) || word.startsWith(QLatin1Char('\'')))
        word.remove(0, 1);
    std::vector<Completion> found;
    std::ranges::copy_if(all, std::back_inserter(found), [&](const Completion &completion) {
        return completion.text.contains(word, Qt::CaseInsensitive);
    });
    std::ranges::stable_partition(
        found, [&](const Completion &completion) { return completion.text.startsWith(word, Qt::CaseInsensitive); });
    return found;
}

std::vector<Completion> topLevelCompletions() {
    return {{QStringLiteral("tp_plan"), tr("the rules: module pattern to style")},
            {QStringLiteral("tp_size"), tr("number of ranks")},
            {QStringLiteral("base"), tr("builtin: merge over the model's plan; none: these rules alone")},
            {QStringLiteral("model_type"), tr("what the plan was written for")},
            {QStringLiteral("ep_plan"), tr("rules of expert parallelism")}};
}

std::vector<Completion> baseCompletions() {
    return {{QStringLiteral("builtin"), tr("merge over the model's built-in plan (default)")},
            {QStringLiteral("none"), tr("these rules are the whole plan")}};
}

} // namespace tpscope
