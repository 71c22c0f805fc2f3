// SPDX-License-Identifier: GPL-3.0-or-later
// The part of PlanEditor that completes patterns and styles.
#include "editor/planeditor.h"

#include <algorithm>

#include "editor/completioncontext.h"

namespace tpscope {
namespace {

constexpr int completionList = 1;
constexpr int longestKey = 48; // a list is as wide as its longest line

// One line of the list: what is inserted, then what it means.
QString listLine(const Completion &completion, int width) {
    return completion.text.leftJustified(width) + QStringLiteral("   ") + completion.about.left(72);
}

} // namespace

QByteArray PlanEditor::lineBytes(int line) const {
    const auto index = static_cast<unsigned long>(line);
    const long start = SendScintilla(SCI_POSITIONFROMLINE, index);
    const long end = SendScintilla(SCI_GETLINEENDPOSITION, index);
    return planText().mid(start, end - start);
}

CompletionContext PlanEditor::contextAtCaret() const {
    const int line = caretLine() - 1;
    std::vector<QByteArray> above;
    for (int i = 0; i < line; ++i)
        above.push_back(lineBytes(i));
    const long caret = SendScintilla(SCI_GETCURRENTPOS);
    const long start = SendScintilla(SCI_POSITIONFROMLINE, static_cast<unsigned long>(line));
    return completionContext(above, lineBytes(line).left(caret - start));
}

void PlanEditor::onCharacterAdded(int character) {
    if (character == '\n' || character == '\r')
        return;
    showCompletions(false);
}

void PlanEditor::completeAtCaret() { showCompletions(true); }

void PlanEditor::showCompletions(bool evenIfShort) {
    const CompletionContext context = contextAtCaret();
    using Kind = CompletionContext::Kind;
    std::vector<Completion> all;
    switch (context.kind) {
    case Kind::None: break;
    case Kind::TopLevel: all = topLevelCompletions(); break;
    case Kind::Base: all = baseCompletions(); break;
    case Kind::Key: all = m_keys; break;
    case Kind::Style: all = context.ofExperts ? styleCompletions(true) : m_styles; break;
    }
    // A style may be chosen from nothing; a pattern wants a beginning, unless it is asked for.
    const qsizetype fewest = evenIfShort || context.kind == Kind::Style || context.kind == Kind::Base ? 0 : 2;
    const std::vector<Completion> found = matching(all, context.typed);
    const bool complete = found.size() == 1 && found.front().text == context.typed;
    if (found.empty() || complete || context.typed.size() < fewest) {
        SendScintilla(SCI_AUTOCCANCEL);
        return;
    }
    int width = 0;
    for (const Completion &completion : found)
        width = std::max(width, std::min(longestKey, static_cast<int>(completion.text.size())));
    QStringList lines;
    for (const Completion &completion : found)
        lines << listLine(completion, width);
    SendScintilla(SCI_AUTOCSETMAXHEIGHT, 9UL);
    SendScintilla(SCI_AUTOCSETORDER, static_cast<unsigned long>(SC_ORDER_CUSTOM));
    showUserList(completionList, lines);
}

void PlanEditor::insertCompletion(const QString &shown) {
    const CompletionContext context = contextAtCaret();
    QByteArray text = shown.section(QLatin1Char(' '), 0, 0).toUtf8();
    const long caret = SendScintilla(SCI_GETCURRENTPOS);
    const auto line = static_cast<unsigned long>(caretLine() - 1);
    const long start = SendScintilla(SCI_POSITIONFROMLINE, line) + context.start;
    const QByteArray rest = lineBytes(static_cast<int>(line)).mid(caret - SendScintilla(SCI_POSITIONFROMLINE, line));
    using Kind = CompletionContext::Kind;
    const bool isKey = context.kind == Kind::Key || context.kind == Kind::TopLevel;
    if (isKey && !rest.contains(':'))
        text += text == "tp_plan" || text == "ep_plan" ? ":" : ": ";
    // What is left of the word behind the caret is replaced too.
    qsizetype word = 0;
    while (word < rest.size() && rest[word] != ' ' && rest[word] != ':' && rest[word] != '#')
        ++word;
    applyEdits({TextEdit{static_cast<std::size_t>(start), static_cast<std::size_t>(caret - start + word),
                         text.toStdString()}});
    SendScintilla(SCI_GOTOPOS, static_cast<unsigned long>(start + text.size()));
    if (isKey && context.kind == Kind::Key)
        QTimer::singleShot(0, this, &PlanEditor::completeAtCaret);
}

} // namespace tpscope
