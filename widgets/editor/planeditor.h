// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <Qsci/qsciscintilla.h>
#include <QTimer>
#include <memory>
#include <vector>

#include "editor/completioncontext.h"
#include "lint/lint.h"
#include "models/planinsight.h"

class QsciLexerYAML;

namespace tpscope {

class PlanDecorations;

// The text of a plan: the only copy there is. Whatever changes it, typing, a fix or a style chosen in a tree, goes
// through here and is one step of one undo history. Offsets of core are bytes of UTF-8, and so are Scintilla's.
// GUI thread.
class PlanEditor : public QsciScintilla {
    Q_OBJECT

public:
    explicit PlanEditor(QWidget *parent = nullptr);
    ~PlanEditor() override;

    void openText(const QByteArray &utf8);    // another document: the history starts anew, unmodified
    void replaceText(const QByteArray &utf8); // the same document as another program wrote it: one undo step
    QByteArray planText() const;

    // Edits with offsets of the unedited text, as one undo step.
    void applyEdits(std::vector<TextEdit> edits);

    // Squiggles, annotations, margin and hover. findings must be about the text as it is now.
    void showAnalysis(std::shared_ptr<const PlanAnalysis> analysis, const std::vector<Diagnostic> &findings);
    void setCompletions(std::vector<Completion> keys, std::vector<Completion> styles);

    void goTo(int line, int column); // from 1; without taking the focus
    int caretLine() const;           // from 1
    bool applyFixAtCaret();          // the fix of the finding at the caret; false: there is none
    const Diagnostic *goToNextFinding(int direction = 1); // nullptr: none
    void completeAtCaret();
    QString hoverText(int line) const; // from 1; HTML, "" nothing to say
    void applyTheme();

signals:
    void textEdited();
    void caretLineChanged(int line);

protected:
    bool viewportEvent(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void dragEnterEvent(QDragEnterEvent *event) override;

private:
    void setUpMargins();
    void setUpKeys();
    void onCharacterAdded(int character);
    void showCompletions(bool evenIfShort);
    void insertCompletion(const QString &shown);
    QByteArray lineBytes(int line) const;
    CompletionContext contextAtCaret() const;

    QsciLexerYAML *m_lexer;
    std::unique_ptr<PlanDecorations> m_decorations;
    std::shared_ptr<const PlanAnalysis> m_analysis;
    std::vector<Diagnostic> m_findings;
    std::vector<Completion> m_keys;
    std::vector<Completion> m_styles;
    QTimer m_rewrap;
    int m_caretLine = 0;
};

} // namespace tpscope
