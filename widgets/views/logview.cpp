// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/logview.h"

#include <QFontDatabase>
#include <QTime>

namespace tpscope {

LogView::LogView(QWidget *parent) : QPlainTextEdit(parent) {
    setReadOnly(true);
    setFrameShape(QFrame::NoFrame);
    setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    setMaximumBlockCount(2000);
    setLineWrapMode(QPlainTextEdit::NoWrap);
    setAccessibleName(tr("Log"));
}

void LogView::say(const QString &line) {
    appendPlainText(QTime::currentTime().toString(QStringLiteral("HH:mm:ss  ")) + line);
}

} // namespace tpscope
