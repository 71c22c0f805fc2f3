// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <vector>

#include "lint/lint.h"
#include "session/workspace.h"

class QsciScintilla;

namespace tpscope {

// What an analysis draws into the editor: squiggles at exact bytes, marks and annotations at their lines, and beside
// each rule what it matches. Knows nothing of typing or undo.
class PlanDecorations {
public:
    enum Margin { NumberMargin = 0, MarkMargin = 1, RuleMargin = 2 };

    explicit PlanDecorations(QsciScintilla &editor) : m_editor(editor) {}

    void defineStyles(); // again after each change of theme
    void show(const std::vector<Diagnostic> &findings);
    void showRules(const PlanAnalysis &analysis);
    // The bytes a finding is about: its span, or from its column to the end of the line.
    SourceSpan bytesOf(const Diagnostic &finding) const;

private:
    void squiggle(const Diagnostic &finding);
    void annotate(const std::vector<Diagnostic> &findings);
    QString wrapped(const QString &text, const QString &indent, int mostLines) const;

    QsciScintilla &m_editor;
};

} // namespace tpscope
