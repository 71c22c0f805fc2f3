// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/span.h"

// Reading the characters of a YAML text around what the parser reports: places, ends of scalars, quoting. The parser
// (yaml-cpp) gives only where a node starts.
namespace tpscope {

// Lines and columns of byte offsets. Asking in rising order is cheap also within one very long line. Not thread-safe.
class TextPlaces {
public:
    explicit TextPlaces(std::string_view text); // keeps a view: the text must outlive it
    // A byte-order mark is not counted. Lines end with LF, CRLF or a lone CR.
    SourceSpan span(std::size_t begin, std::size_t end);
    Location location(const std::string &fileName, std::size_t offset);

private:
    void moveTo(std::size_t offset);
    std::string_view m_text;
    std::size_t m_start = 0; // behind the byte-order mark
    std::size_t m_offset = 0;
    std::size_t m_lineStart = 0;
    int m_line = 1;
    int m_column = 1;
};

bool isBlank(char c);     // space or tab
bool isLineEnd(char c);   // LF or CR

// Offset of the first character at or after `at` that is no blank, line end or comment.
std::size_t skipSpace(std::string_view text, std::size_t at);
// Skips an anchor (&name) and a tag (!name) in either order, with what stands between them and the content.
std::size_t skipProperties(std::string_view text, std::size_t at, bool anchor = true, bool tag = true);
// One behind the scalar that starts at `at` (behind its properties). value is what the parser read there: a plain
// scalar ends where its last character stands.
std::size_t scalarEnd(std::string_view text, std::size_t at, std::string_view value);
// Length of null's spelling (~, null, Null, NULL) at `at`; 0 when there is none.
std::size_t nullLength(std::string_view text, std::size_t at);
// Offset of the "?" that makes the node at `at` an explicit key; npos: there is none.
std::size_t explicitKeyMark(std::string_view text, std::size_t at);
// Bytes from the start of at's line to at.
std::size_t columnOf(std::string_view text, std::size_t at);
// One behind the last character of at's line, before its line end.
std::size_t lineEnd(std::string_view text, std::size_t at);
// The line end the text uses: that of its first line, "\n" when it has none.
std::string lineBreak(std::string_view text);

// True when a plain scalar is no string under YAML 1.1 as PyYAML's safe_load reads it, or under JSON: null, booleans,
// numbers, dates.
bool isTypedScalar(std::string_view plain);

enum class Quote { Plain, Single, Double };
// The text as one scalar on one line, quoted as asked, or more strongly where it has to be.
std::string scalarText(std::string_view value, Quote wanted);
Quote quoteOf(std::string_view text, std::size_t at);

// What forbids reading the bytes as a YAML text: invalid UTF-8, a control character. Location has line and column.
Result<void> checkText(std::string_view text, const std::string &fileName);

} // namespace tpscope
