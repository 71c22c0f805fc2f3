// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>

namespace tpscope {

// A piece of a text. offset and length are UTF-8 bytes; line and column count from 1, column in UTF-8 characters.
// line 0: no place in any text (an inherited rule).
struct SourceSpan {
    std::size_t offset = 0;
    std::size_t length = 0;
    int line = 0;
    int column = 0;

    bool valid() const { return line > 0; }
    bool operator==(const SourceSpan &) const = default;
};

// Replace length bytes at offset by text. The editor applies one TextEdit as one undo step.
struct TextEdit {
    std::size_t offset = 0;
    std::size_t length = 0;
    std::string text;
    bool operator==(const TextEdit &) const = default;
};

} // namespace tpscope
