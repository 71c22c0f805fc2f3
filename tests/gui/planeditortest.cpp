// SPDX-License-Identifier: GPL-3.0-or-later
#include <QHelpEvent>
#include <QToolTip>
#include <QTreeWidget>

#include "editor/completioncontext.h"
#include "editor/planeditor.h"
#include "models/selection.h"
#include "views/planview.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

namespace {

constexpr int errorIndicator = 8;

QString squiggled(const PlanEditor &editor, int indicator) {
    QByteArray out;
    const QByteArray text = editor.planText();
    for (int i = 0; i < text.size(); ++i)
        if (editor.SendScintilla(QsciScintillaBase::SCI_INDICATORVALUEAT, static_cast<unsigned long>(indicator),
                                 static_cast<long>(i)))
            out += text[i];
    return QString::fromUtf8(out);
}

} // namespace

class PlanEditorTest : public QObject {
    Q_OBJECT

private slots:
    void init() {
        m_workbench = std::make_unique<PlanWorkbench>();
        m_selection = std::make_unique<Selection>();
        m_view = std::make_unique<PlanView>(m_workbench.get(), m_selection.get());
        m_view->resize(700, 400);
        m_view->show();
        QVERIFY(openTiny(*m_workbench));
        m_view->openText(rightPlan, {});
        QVERIFY(analysed(*m_workbench));
    }
    void cleanup() {
        m_view.reset();
        m_selection.reset();
        m_workbench.reset();
    }

    void aTypedMistakeIsSquiggledAndFixedAndUndone() {
        PlanEditor &editor = m_view->editor();
        editor.setFocus();
        editor.goTo(6, 1);
        editor.SendScintilla(QsciScintillaBase::SCI_LINEEND);
        QTest::keyClick(editor.viewport(), Qt::Key_Backspace);
        QTest::keyClicks(&editor, QStringLiteral("r"));
        QTest::keyClick(&editor, Qt::Key_Escape);
        const QByteArray typed = editor.planText();
        QVERIFY2(typed.contains("k_proj: colwisr") || typed.contains("k_proj: colwiser"), typed.constData());
        QTRY_VERIFY_WITH_TIMEOUT(squiggled(editor, errorIndicator).startsWith(QLatin1String("colwis")), patienceMs);
        QVERIFY(editor.annotation(5).contains(QLatin1String("TP001")));
        QVERIFY(editor.hoverText(6).contains(QLatin1String("TP001")));

        QVERIFY(m_view->applyFix());
        QCOMPARE(editor.planText(), QByteArray(rightPlan));
        QVERIFY(analysed(*m_workbench));
        QCOMPARE(squiggled(editor, errorIndicator), QString());
        editor.undo();
        QCOMPARE(editor.planText(), typed);
    }

    void aChosenStyleEditsTheRuleAndNothingElse() {
        PlanEditor &editor = m_view->editor();
        QVERIFY(m_view->setStyle(QStringLiteral("model.layers.*.self_attn.q_proj"), QStringLiteral("rowwise")));
        QCOMPARE(editor.planText(), QByteArray(rightPlan).replace("q_proj: colwise", "q_proj: rowwise"));
        QVERIFY(m_view->setStyle(QStringLiteral("lm_head"), QStringLiteral("colwise_gather_output")));
        QVERIFY(editor.planText().endsWith("  lm_head: colwise_gather_output\n"));
        editor.undo();
        editor.undo();
        QCOMPARE(editor.planText(), QByteArray(rightPlan));
        QVERIFY(!editor.isModified());
    }

    void f8GoesFromFindingToFinding() {
        PlanEditor &editor = m_view->editor();
        editor.openText(
            QByteArray(rightPlan).replace("q_proj: colwise", "q_proj: x").replace("o_proj: rowwise", "o_proj: y"));
        QTRY_VERIFY(m_workbench->planText().contains(QLatin1String("o_proj: y")));
        QVERIFY(analysed(*m_workbench));
        editor.goTo(1, 1);
        m_view->nextFinding(1);
        QCOMPARE(editor.caretLine(), 5);
        m_view->nextFinding(1);
        QCOMPARE(editor.caretLine(), 8);
        m_view->nextFinding(1);
        QCOMPARE(editor.caretLine(), 5);
        m_view->nextFinding(-1);
        QCOMPARE(editor.caretLine(), 8);
    }

    void selectionMovesTheCaret() {
        m_selection->selectModule(QStringLiteral("model.layers.*.self_attn.v_proj"));
        QCOMPARE(m_view->editor().caretLine(), 7);
        m_selection->selectLine(2, 1);
        QCOMPARE(m_view->editor().caretLine(), 2);
    }

    void inheritedRulesAreShown() {
        auto *list = m_view->findChild<QTreeWidget *>();
        QVERIFY(!list->isVisible());
        m_view->openText("tp_plan:\n  model.layers.*.self_attn.q_norm: replicate\n", {});
        QVERIFY(analysed(*m_workbench));
        QVERIFY(list->isVisible());
        QCOMPARE(list->topLevelItemCount(), 10);
    }

    void completesPatternsAndStyles() {
        const std::vector<QByteArray> lines{"model_type: qwen3", "tp_plan:"};
        QCOMPARE(completionContext(lines, "  model.la").kind, CompletionContext::Kind::Key);
        QCOMPARE(completionContext(lines, "  lm_head: col").kind, CompletionContext::Kind::Style);
        QCOMPARE(completionContext(lines, "  lm_head: col").start, 11);
        QCOMPARE(completionContext(lines, "ba").kind, CompletionContext::Kind::TopLevel);
        QCOMPARE(completionContext(lines, "base: ").kind, CompletionContext::Kind::Base);
        QCOMPARE(completionContext(lines, "  # lm_head: col").kind, CompletionContext::Kind::None);
        const auto keys = keyCompletions(*m_workbench->workspace());
        const auto found = matching(keys, QStringLiteral("q_proj"));
        QCOMPARE(found.size(), std::size_t(1));
        QCOMPARE(found.front().about, QStringLiteral("2 \u00D7 Linear"));

        PlanEditor &editor = m_view->editor();
        editor.setFocus();
        editor.goTo(8, 1);
        editor.SendScintilla(QsciScintillaBase::SCI_LINEEND);
        QTest::keyClick(&editor, Qt::Key_Return);
        QTest::keyClicks(&editor, QStringLiteral("gate"));
        QVERIFY(editor.isListActive());
        QTest::keyClick(&editor, Qt::Key_Return);
        QVERIFY2(editor.planText().contains("\n  model.layers.*.mlp.gate_proj: "), editor.planText().constData());
    }

    void anExpertPlanIsOfferedItsOwnStyles() {
        const CompletionContext context = completionContext({"ep_plan:"}, "  model.layers.*.mlp.router: ep");
        QCOMPARE(context.kind, CompletionContext::Kind::Style);
        QVERIFY(context.ofExperts);
        QVERIFY(!completionContext({"tp_plan:"}, "  lm_head: col").ofExperts);
        for (const ParallelStyle &style : parallelStyles()) {
            const QString name = QString::fromStdString(std::string(style.name));
            QCOMPARE(std::ranges::count(styleCompletions(true), name, &Completion::text), 1);
            QCOMPARE(std::ranges::count(styleCompletions(), name, &Completion::text), style.expertParallel ? 0 : 1);
        }
    }

    void pointingAtARuleSaysWhatItDoes() {
        PlanEditor &editor = m_view->editor();
        const long at = editor.SendScintilla(QsciScintillaBase::SCI_POSITIONFROMLINE, 4UL);
        const QPoint place(
            static_cast<int>(editor.SendScintilla(QsciScintillaBase::SCI_POINTXFROMPOSITION, 0UL, at)) + 60,
            static_cast<int>(editor.SendScintilla(QsciScintillaBase::SCI_POINTYFROMPOSITION, 0UL, at)) + 4);
        QHelpEvent help(QEvent::ToolTip, place, editor.viewport()->mapToGlobal(place));
        QApplication::sendEvent(editor.viewport(), &help);
        const QString said = QToolTip::text();
        for (const char *part : {"matches 2 \u00D7 Linear: layers 0 to 1", "shard(0)",
                                 "64 \u00D7 64 \u2192 32 \u00D7 64", "all-reduce of its input's gradient"})
            QVERIFY2(said.contains(QString::fromUtf8(part).toHtmlEscaped()), qPrintable(said));
    }

    void placesAreBytesWhateverTheLetters() {
        PlanEditor &editor = m_view->editor();
        editor.openText(QByteArray("# \xC3\xA9\xC3\xA9 \xE2\x82\xAC\n") + wrongPlan());
        QTRY_COMPARE_WITH_TIMEOUT(squiggled(editor, errorIndicator), QStringLiteral("colwize"), patienceMs);
    }

private:
    std::unique_ptr<PlanWorkbench> m_workbench;
    std::unique_ptr<Selection> m_selection;
    std::unique_ptr<PlanView> m_view;
};

QTEST_MAIN(PlanEditorTest)
#include "planeditortest.moc"
