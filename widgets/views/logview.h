// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPlainTextEdit>

namespace tpscope {

// What the program did, a line each with the time of day; the oldest lines go first. GUI thread.
class LogView : public QPlainTextEdit {
    Q_OBJECT

public:
    explicit LogView(QWidget *parent = nullptr);
    void say(const QString &line);
};

} // namespace tpscope
