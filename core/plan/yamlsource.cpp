// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/yamlsource.h"

#include <algorithm>
#include <array>
#include <regex>

namespace tpscope {
namespace {

constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";

bool isContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the UTF-8 sequence at `at`; 0 when it is none (also overlong forms, surrogates, beyond U+10FFFF).
std::size_t sequenceLength(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
    const unsigned char first = byte(at);
    if (first < 0x80)
        return 1;
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(at + i) & 0xC0) != 0x80)
            return 0;
    const unsigned char second = byte(at + 1);
    const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
    return overlong || outside ? 0 : length;
}

std::size_t doubleQuotedEnd(std::string_view text, std::size_t at) {
    for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\')
            ++at;
    return std::min(at + 1, text.size());
}

std::size_t singleQuotedEnd(std::string_view text, std::size_t at) {
    for (++at; at < text.size(); ++at) {
        if (text[at] != '\'')
            continue;
        if (at + 1 >= text.size() || text[at + 1] != '\'')
            return at + 1;
        ++at;
    }
    return text.size();
}

// A plain scalar's words stand in the text as they are read; what lies between them is folded.
std::size_t plainEnd(std::string_view text, std::size_t at, std::string_view value) {
    std::size_t end = at;
    for (const char c : value) {
        if (isBlank(c) || isLineEnd(c))
            continue;
        while (at < text.size() && (isBlank(text[at]) || isLineEnd(text[at])))
            ++at;
        if (at >= text.size() || text[at] != c)
            return std::max(end, at);
        end = ++at;
    }
    return end;
}

std::size_t nextLine(std::string_view text, std::size_t at) {
    at = lineEnd(text, at);
    if (at < text.size() && text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n')
        return at + 2;
    return std::min(at + 1, text.size());
}

// Literal and folded scalars: the lines indented at least as far as the first that is not empty.
std::size_t blockScalarEnd(std::string_view text, std::size_t at, std::string_view value) {
    std::size_t end = lineEnd(text, at);
    if (value.find_first_not_of('\n') == std::string_view::npos)
        return end;
    std::size_t indent = std::string_view::npos;
    for (std::size_t line = nextLine(text, at); line < text.size(); line = nextLine(text, line)) {
        const std::size_t stop = lineEnd(text, line);
        const std::size_t content = std::min(text.find_first_not_of(' ', line), stop);
        if (content == stop)
            continue;
        if (indent == std::string_view::npos)
            indent = content - line;
        if (content - line < indent)
            break;
        end = stop;
    }
    return end;
}

bool isPlainSafe(std::string_view value) {
    if (value.empty() || isTypedScalar(value))
        return false;
    const auto word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (!word(value.front()))
        return false;
    return std::ranges::all_of(value, [&](char c) {
        return word(c) || c == '.' || c == '*' || c == '-' || c == '/' || c == '+' || c == '\\' || c == '$' ||
               c == '(' || c == ')';
    });
}

std::string doubleQuoted(std::string_view value) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    std::string out = "\"";
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (c == '\r')
            out += "\\r";
        else if (byte < 0x20 || byte == 0x7F)
            ((out += "\\u00") += digits[byte >> 4]) += digits[byte & 15];
        else
            out += c;
    }
    return out += '"';
}

} // namespace

TextPlaces::TextPlaces(std::string_view text)
    : m_text(text), m_start(text.starts_with(byteOrderMark) ? byteOrderMark.size() : 0), m_offset(m_start),
      m_lineStart(m_start) {}

void TextPlaces::moveTo(std::size_t offset) {
    offset = std::min(offset, m_text.size());
    if (offset < m_offset && offset >= m_lineStart) {
        m_offset = m_lineStart;
        m_column = 1;
    } else if (offset < m_offset) {
        m_offset = m_lineStart = m_start;
        m_line = m_column = 1;
    }
    for (; m_offset < offset; ++m_offset) {
        const char c = m_text[m_offset];
        const bool carriageOfPair = c == '\r' && m_offset + 1 < m_text.size() && m_text[m_offset + 1] == '\n';
        if (isLineEnd(c) && !carriageOfPair) {
            ++m_line;
            m_column = 1;
            m_lineStart = m_offset + 1;
        } else if (m_offset + 1 >= m_text.size() || !isContinuation(m_text[m_offset + 1])) {
            ++m_column; // counted with the last byte of a character
        }
    }
}

SourceSpan TextPlaces::span(std::size_t begin, std::size_t end) {
    moveTo(begin);
    return {begin, end > begin ? end - begin : 0, m_line, m_column};
}

Location TextPlaces::location(const std::string &fileName, std::size_t offset) {
    moveTo(offset);
    return {fileName, m_line, m_column};
}

bool isBlank(char c) { return c == ' ' || c == '\t'; }
bool isLineEnd(char c) { return c == '\n' || c == '\r'; }

std::size_t skipSpace(std::string_view text, std::size_t at) {
    while (at < text.size()) {
        if (isBlank(text[at]) || isLineEnd(text[at]))
            ++at;
        else if (text[at] == '#' && (at == 0 || isBlank(text[at - 1]) || isLineEnd(text[at - 1])))
            at = lineEnd(text, at);
        else
            break;
    }
    return at;
}

std::size_t skipProperties(std::string_view text, std::size_t at, bool anchor, bool tag) {
    while (at < text.size()) {
        bool &wanted = text[at] == '&' ? anchor : tag;
        if ((text[at] != '&' && text[at] != '!') || !wanted)
            break;
        wanted = false;
        while (at < text.size() && !isBlank(text[at]) && !isLineEnd(text[at]))
            ++at;
        at = skipSpace(text, at);
    }
    return at;
}

std::size_t scalarEnd(std::string_view text, std::size_t at, std::string_view value) {
    switch (at < text.size() ? text[at] : '\0') {
    case '"': return doubleQuotedEnd(text, at);
    case '\'': return singleQuotedEnd(text, at);
    case '|':
    case '>': return blockScalarEnd(text, at, value);
    default: return plainEnd(text, at, value);
    }
}

std::size_t nullLength(std::string_view text, std::size_t at) {
    for (const std::string_view spelling : {"~", "null", "Null", "NULL"}) {
        if (!text.substr(std::min(at, text.size())).starts_with(spelling))
            continue;
        const std::size_t end = at + spelling.size();
        const char next = end < text.size() ? text[end] : '\n';
        if (isBlank(next) || isLineEnd(next) || next == ',' || next == '}' || next == ']' || next == ':')
            return spelling.size();
    }
    return 0;
}

std::size_t explicitKeyMark(std::string_view text, std::size_t at) {
    const std::size_t before = at == 0 ? std::string_view::npos : text.find_last_not_of(" \t\r\n", at - 1);
    return before != std::string_view::npos && before + 1 < at && text[before] == '?' ? before
                                                                                     : std::string_view::npos;
}

std::size_t columnOf(std::string_view text, std::size_t at) {
    std::size_t start = std::min(at, text.size());
    while (start > 0 && !isLineEnd(text[start - 1]))
        --start;
    if (start == 0 && text.starts_with(byteOrderMark))
        start = std::min(at, byteOrderMark.size());
    return at - start;
}

std::size_t lineEnd(std::string_view text, std::size_t at) {
    return std::min(text.find_first_of("\r\n", at), text.size());
}

std::string lineBreak(std::string_view text) {
    const std::size_t end = text.find_first_of("\r\n");
    if (end == std::string_view::npos || text[end] == '\n')
        return "\n";
    return end + 1 < text.size() && text[end + 1] == '\n' ? "\r\n" : "\r";
}

bool isTypedScalar(std::string_view plain) {
    if (plain.empty() || plain == "~" || plain == "=" || plain == "<<")
        return true;
    if (plain.size() > 64 || std::string_view("+-.0123456789yYnNtTfFoO").find(plain[0]) == std::string_view::npos)
        return false;
    // Source: PyYAML resolver.py; JSON's numbers beside it.
    static const std::regex typed(
        "null|Null|NULL|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
        "|[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|0o[0-7]+"
        "|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\\.[0-9_]*)?"
        "|[-+]?([0-9][0-9_]*\\.?[0-9_]*|\\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"
        "|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)"
        "|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \\t].*)?");
    return std::regex_match(plain.begin(), plain.end(), typed);
}

std::string scalarText(std::string_view value, Quote wanted) {
    const bool printable = std::ranges::none_of(value, [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (wanted == Quote::Plain && isPlainSafe(value))
        return std::string(value);
    if (wanted != Quote::Single || !printable)
        return doubleQuoted(value);
    std::string out = "'";
    for (const char c : value)
        out.append(c == '\'' ? 2 : 1, c);
    return out += '\'';
}

Quote quoteOf(std::string_view text, std::size_t at) {
    const char c = at < text.size() ? text[at] : '\0';
    return c == '"' ? Quote::Double : c == '\'' ? Quote::Single : Quote::Plain;
}

Result<void> checkText(std::string_view text, const std::string &fileName) {
    for (std::size_t at = 0; at < text.size();) {
        const auto byte = static_cast<unsigned char>(text[at]);
        const std::size_t length = sequenceLength(text, at);
        const bool control = (byte < 0x20 && byte != '\t' && !isLineEnd(text[at])) || byte == 0x7F;
        if (length > 0 && !control) {
            at += length;
            continue;
        }
        static constexpr std::string_view digits = "0123456789ABCDEF";
        const std::string hex{'0', 'x', digits[byte >> 4], digits[byte & 15]};
        return fail(ErrorCode::BadInput,
                    control ? "control character " + hex + "; a plan is plain text"
                            : "byte " + hex + " is not UTF-8; save the file as UTF-8",
                    TextPlaces(text).location(fileName, at));
    }
    return {};
}

} // namespace tpscope
