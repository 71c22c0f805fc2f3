// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QString>
#include <vector>

#include "models/planinsight.h"

namespace tpscope {

// What can be typed at a place of a plan, told from the lines above and the part of the line before the caret.
struct CompletionContext {
    enum class Kind { None, TopLevel, Key, Style, Base };
    Kind kind = Kind::None;
    bool ofExperts = false; // Style: in an ep_plan
    int start = 0;  // byte column where the word begins
    QString typed;  // the word so far
};

// lines: the lines before the caret's, without line ends. before: the caret's line up to the caret.
CompletionContext completionContext(const std::vector<QByteArray> &lines, const QByteArray &before);

// Those that contain what was typed, those that begin with it first. A quoted word is matched without its quote.
std::vector<Completion> matching(const std::vector<Completion> &all, const QString &typed);
std::vector<Completion> topLevelCompletions();
std::vector<Completion> baseCompletions();

} // namespace tpscope
