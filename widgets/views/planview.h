// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QTimer>
#include <QWidget>
#include <functional>
#include <vector>

#include "lint/lint.h"

class QLabel;
class QPushButton;
class QToolButton;
class QTreeWidget;

namespace tpscope {

class PlanEditor;
class PlanWorkbench;
class Selection;

// The plan's text with what it inherits below it. Sends the text to the workbench while somebody types and shows what
// comes back. GUI thread.
class PlanView : public QWidget {
    Q_OBJECT

public:
    // Both must outlive the view.
    PlanView(PlanWorkbench *workbench, Selection *selection, QWidget *parent = nullptr);

    PlanEditor &editor() { return *m_editor; }
    void setFileName(const QString &fileName); // for messages; "" not saved yet
    void openText(const QByteArray &utf8, const QString &fileName);

    // The rule for a key shall have this style: edits the text, one undo step. false: the text cannot be read now.
    bool setStyle(const QString &key, const QString &style);
    bool applyFix(); // of the finding at the caret
    bool applyFixOf(const Diagnostic &finding);
    void nextFinding(int direction);

    // A message above the text with up to two answers; the callbacks run when one is clicked, then it goes away.
    struct Answer {
        QString text;
        std::function<void()> run;
    };
    void showMessage(const QString &text, std::vector<Answer> answers);
    void hideMessage();
    QString message() const; // what is shown; "" nothing
    void refreshTheme();

signals:
    void hinted(const QString &text); // a word for the status bar

private:
    void buildMessage();
    void buildInherited();
    void sendText();
    bool textIsChecked();
    void showAnalysis();
    void showInherited();
    void followCaret(int line);
    void followModule(const QString &module);

    PlanWorkbench *m_workbench;
    Selection *m_selection;
    PlanEditor *m_editor;
    QWidget *m_bar;
    QLabel *m_message;
    QPushButton *m_answers[2];
    std::vector<Answer> m_answersShown;
    QToolButton *m_inheritedTitle;
    QTreeWidget *m_inherited;
    QTimer m_typing;
    QString m_fileName;
    bool m_inheritedOpen = true;
    bool m_following = false;
};

} // namespace tpscope
