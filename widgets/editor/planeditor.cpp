// SPDX-License-Identifier: GPL-3.0-or-later
#include "editor/planeditor.h"

#include <QApplication>
#include <QDragEnterEvent>
#include <QFontDatabase>
#include <QHelpEvent>
#include <QMimeData>
#include <QToolTip>
#include <Qsci/qscicommandset.h>
#include <Qsci/qscilexeryaml.h>

#include <algorithm>

#include "editor/plandecorations.h"
#include "style/theme.h"

namespace tpscope {
namespace {

constexpr int rewrapAfterMs = 60;

QFont editorFont() {
    QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
    font.setPointSizeF(std::max(10.0, font.pointSizeF()));
    return font;
}

} // namespace

PlanEditor::PlanEditor(QWidget *parent)
    : QsciScintilla(parent), m_lexer(new QsciLexerYAML(this)), m_decorations(std::make_unique<PlanDecorations>(*this)) {
    setUtf8(true);
    setEolMode(EolUnix);
    setTabWidth(2);
    setIndentationsUseTabs(false);
    setAutoIndent(true);
    setIndentationGuides(true);
    setBraceMatching(SloppyBraceMatch);
    setAnnotationDisplay(AnnotationIndented);
    setCaretLineVisible(true);
    setWrapMode(WrapNone);
    setFrameShape(QFrame::NoFrame);
    SendScintilla(SCI_SETSCROLLWIDTHTRACKING, 1UL);
    SendScintilla(SCI_SETSCROLLWIDTH, 1UL);
    setAccessibleName(tr("Plan text"));
    setLexer(m_lexer);
    setUpMargins();
    setUpKeys();
    applyTheme();
    m_styles = styleCompletions();

    m_rewrap.setSingleShot(true);
    m_rewrap.setInterval(rewrapAfterMs);
    connect(&m_rewrap, &QTimer::timeout, this, [this] { m_decorations->show(m_findings); });
    connect(this, &QsciScintilla::textChanged, this, &PlanEditor::textEdited);
    connect(this, &QsciScintillaBase::SCN_CHARADDED, this, &PlanEditor::onCharacterAdded);
    connect(this, QOverload<int, const QString &>::of(&QsciScintilla::userListActivated), this,
            [this](int, const QString &shown) { insertCompletion(shown); });
    connect(this, &QsciScintilla::cursorPositionChanged, this, [this](int line, int) {
        if (line + 1 == m_caretLine)
            return;
        m_caretLine = line + 1;
        emit caretLineChanged(m_caretLine);
    });
}

PlanEditor::~PlanEditor() = default;

void PlanEditor::setUpMargins() {
    setMarginType(PlanDecorations::NumberMargin, NumberMargin);
    setMarginWidth(PlanDecorations::NumberMargin, QStringLiteral("000"));
    setMarginType(PlanDecorations::MarkMargin, SymbolMargin);
    setMarginWidth(PlanDecorations::MarkMargin, 18);
    setMarginMarkerMask(PlanDecorations::MarkMargin, 0b111);
    setMarginType(PlanDecorations::RuleMargin, TextMarginRightJustified);
    setMarginWidth(PlanDecorations::RuleMargin, 0);
    setFolding(NoFoldStyle);
}

// Keys the window gives to its own actions must not be eaten here.
void PlanEditor::setUpKeys() {
    for (QsciCommand *command : standardCommands()->commands()) {
        for (const Qt::Key key : {Qt::Key_D, Qt::Key_L, Qt::Key_T})
            if (command->key() == QKeyCombination(Qt::CTRL, key).toCombined())
                command->setKey(0);
    }
}

void PlanEditor::applyTheme() {
    const QFont font = editorFont();
    const QPalette colors = QApplication::palette(); // the widget's own follows later
    const bool dark = Theme::isDark();
    m_lexer->setDefaultFont(font);
    m_lexer->setFont(font);
    m_lexer->setDefaultPaper(colors.color(QPalette::Base));
    m_lexer->setDefaultColor(colors.color(QPalette::Text));
    m_lexer->setPaper(colors.color(QPalette::Base));
    m_lexer->setColor(colors.color(QPalette::Text));
    m_lexer->setColor(Theme::subtleText(), QsciLexerYAML::Comment);
    m_lexer->setColor(dark ? QColor("#8CC4EE") : QColor("#0B5A94"), QsciLexerYAML::Identifier);
    m_lexer->setColor(dark ? QColor("#C3A6E8") : QColor("#6B3FA0"), QsciLexerYAML::Keyword);
    m_lexer->setColor(dark ? QColor("#E9C46A") : QColor("#7A5400"), QsciLexerYAML::Number);
    m_lexer->setColor(dark ? QColor("#C3A6E8") : QColor("#6B3FA0"), QsciLexerYAML::Reference);
    m_lexer->setColor(Theme::subtleText(), QsciLexerYAML::Operator);
    m_lexer->setColor(Theme::color(Meaning::Error), QsciLexerYAML::SyntaxErrorMarker);
    m_lexer->setPaper(colors.color(QPalette::Base), QsciLexerYAML::SyntaxErrorMarker);
    setPaper(colors.color(QPalette::Base));
    setColor(colors.color(QPalette::Text));
    setCaretForegroundColor(colors.color(QPalette::Text));
    setCaretLineBackgroundColor(dark ? QColor("#22262B") : QColor("#F0F5FA"));
    setSelectionBackgroundColor(colors.color(QPalette::Highlight));
    setSelectionForegroundColor(colors.color(QPalette::HighlightedText));
    setMarginsFont(font);
    setMarginsBackgroundColor(colors.color(QPalette::Window));
    setMarginsForegroundColor(Theme::subtleText());
    setIndentationGuidesBackgroundColor(Theme::grid());
    setIndentationGuidesForegroundColor(Theme::grid());
    setMatchedBraceBackgroundColor(colors.color(QPalette::AlternateBase));
    setMatchedBraceForegroundColor(colors.color(QPalette::Text));
    m_decorations->defineStyles();
    m_decorations->show(m_findings);
    if (m_analysis)
        m_decorations->showRules(*m_analysis);
}

QByteArray PlanEditor::planText() const {
    const auto size = static_cast<qsizetype>(SendScintilla(SCI_GETLENGTH));
    const auto *bytes = static_cast<const char *>(SendScintillaPtrResult(SCI_GETCHARACTERPOINTER));
    return QByteArray(bytes, size);
}

void PlanEditor::openText(const QByteArray &utf8) {
    SendScintilla(SCI_CLEARALL);
    SendScintilla(SCI_ADDTEXT, static_cast<unsigned long>(utf8.size()), utf8.constData());
    SendScintilla(SCI_EMPTYUNDOBUFFER);
    setModified(false);
    setEolMode(utf8.contains("\r\n") ? EolWindows : EolUnix);
    SendScintilla(SCI_GOTOPOS, 0UL);
    m_findings.clear();
    m_analysis.reset();
    m_decorations->show(m_findings);
    clearMarginText();
}

void PlanEditor::replaceText(const QByteArray &utf8) {
    const long line = caretLine();
    applyEdits({TextEdit{0, static_cast<std::size_t>(planText().size()), utf8.toStdString()}});
    goTo(static_cast<int>(line), 1);
}

void PlanEditor::applyEdits(std::vector<TextEdit> edits) {
    std::ranges::sort(edits, std::greater{}, &TextEdit::offset);
    beginUndoAction();
    for (const TextEdit &edit : edits) {
        SendScintilla(SCI_SETTARGETSTART, static_cast<unsigned long>(edit.offset));
        SendScintilla(SCI_SETTARGETEND, static_cast<unsigned long>(edit.offset + edit.length));
        SendScintilla(SCI_REPLACETARGET, static_cast<unsigned long>(edit.text.size()), edit.text.c_str());
    }
    endUndoAction();
}

void PlanEditor::showAnalysis(std::shared_ptr<const PlanAnalysis> analysis, const std::vector<Diagnostic> &findings) {
    m_findings = findings;
    m_decorations->show(m_findings);
    // A text that cannot be read for a moment keeps what its rules said before.
    if (!analysis || analysis->unreadable)
        return;
    m_analysis = std::move(analysis);
    const int before = marginWidth(PlanDecorations::RuleMargin);
    m_decorations->showRules(*m_analysis);
    if (before != marginWidth(PlanDecorations::RuleMargin))
        m_rewrap.start();
}

void PlanEditor::setCompletions(std::vector<Completion> keys, std::vector<Completion> styles) {
    m_keys = std::move(keys);
    m_styles = std::move(styles);
}

void PlanEditor::goTo(int line, int column) {
    const auto index = static_cast<unsigned long>(std::clamp(line, 1, std::max(lines(), 1)) - 1);
    long at = SendScintilla(SCI_POSITIONFROMLINE, index);
    const long end = SendScintilla(SCI_GETLINEENDPOSITION, index);
    for (int i = 1; i < column && at < end; ++i)
        at = SendScintilla(SCI_POSITIONAFTER, static_cast<unsigned long>(at));
    SendScintilla(SCI_ENSUREVISIBLE, index);
    SendScintilla(SCI_GOTOPOS, static_cast<unsigned long>(at));
}

int PlanEditor::caretLine() const {
    int line = 0;
    int column = 0;
    getCursorPosition(&line, &column);
    return line + 1;
}

bool PlanEditor::applyFixAtCaret() {
    const auto caret = static_cast<std::size_t>(SendScintilla(SCI_GETCURRENTPOS));
    const Diagnostic *best = nullptr;
    for (const Diagnostic &finding : m_findings) {
        if (!finding.fix || finding.fix->edits.empty() || finding.span.line != caretLine())
            continue;
        const SourceSpan span = m_decorations->bytesOf(finding);
        if (!best || (caret >= span.offset && caret <= span.offset + span.length))
            best = &finding;
    }
    if (!best)
        return false;
    applyEdits(best->fix->edits);
    return true;
}

const Diagnostic *PlanEditor::goToNextFinding(int direction) {
    std::vector<const Diagnostic *> order;
    for (const Diagnostic &finding : m_findings)
        if (finding.span.valid())
            order.push_back(&finding);
    if (order.empty())
        return nullptr;
    std::ranges::stable_sort(order, {}, [](const Diagnostic *finding) { return finding->span.line; });
    const int line = caretLine();
    const Diagnostic *target = direction > 0 ? order.front() : order.back();
    if (direction > 0) {
        const auto next = std::ranges::find_if(order, [&](const Diagnostic *f) { return f->span.line > line; });
        target = next == order.end() ? order.front() : *next;
    } else {
        for (const Diagnostic *finding : order)
            if (finding->span.line < line)
                target = finding;
    }
    goTo(target->span.line, target->span.column);
    return target;
}

QString PlanEditor::hoverText(int line) const {
    QStringList parts;
    for (const Diagnostic &finding : m_findings)
        if (finding.span.line == line)
            parts << QStringLiteral("<b>%1</b> %2")
                         .arg(QString::fromStdString(finding.code),
                              QString::fromStdString(finding.message).toHtmlEscaped());
    if (m_analysis)
        if (const EffectiveRule *rule = ruleAtLine(*m_analysis, line))
            parts << ruleHover(*m_analysis, *rule).toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>"));
    if (parts.isEmpty())
        return {};
    return QStringLiteral("<div>%1</div>").arg(parts.join(QLatin1String("<hr>")));
}

bool PlanEditor::viewportEvent(QEvent *event) {
    if (event->type() != QEvent::ToolTip)
        return QsciScintilla::viewportEvent(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    const long at = SendScintilla(SCI_POSITIONFROMPOINT, static_cast<unsigned long>(help->pos().x()),
                                  static_cast<long>(help->pos().y()));
    const long line = SendScintilla(SCI_LINEFROMPOSITION, static_cast<unsigned long>(at));
    const long top = SendScintilla(SCI_POINTYFROMPOSITION, 0UL, at);
    const bool onLine = help->pos().y() >= top && help->pos().y() < top + SendScintilla(SCI_TEXTHEIGHT, 0UL);
    const QString text = onLine ? hoverText(static_cast<int>(line) + 1) : QString();
    if (text.isEmpty())
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), text, viewport());
    return true;
}

void PlanEditor::resizeEvent(QResizeEvent *event) {
    QsciScintilla::resizeEvent(event);
    m_rewrap.start();
}

void PlanEditor::dragEnterEvent(QDragEnterEvent *event) {
    // Files are opened by the window; only text is dropped into the text.
    if (event->mimeData()->hasUrls())
        event->ignore();
    else
        QsciScintilla::dragEnterEvent(event);
}

} // namespace tpscope
