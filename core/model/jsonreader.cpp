// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/jsonreader.h"

#include <algorithm>

#include "base/text.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

// nlohmann prefixes its messages with its own name and, for syntax errors, the place, which
// Location already says: "[json.exception.parse_error.101] parse error at line 1, column 2: syntax
// error ...".
std::string plainMessage(std::string_view what) {
    if (const auto bracket = what.find("] ");
        what.starts_with("[") && bracket != std::string_view::npos)
        what.remove_prefix(bracket + 2);
    if (what.starts_with("parse error"))
        if (const auto colon = what.find(": "); colon != std::string_view::npos)
            what.remove_prefix(colon + 2);
    return shortened(what, 160);
}

// Where brackets first nest too deep; npos: nowhere. A text that is no JSON may be judged wrongly
// here, but then the parser refuses it anyway.
std::size_t tooDeepAt(std::string_view text) {
    int depth = 0;
    bool inString = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (inString) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                inString = false;
        } else if (c == '"') {
            inString = true;
        } else if (c == '[' || c == '{') {
            if (++depth > deepestJson)
                return i;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return std::string_view::npos;
}

tl::unexpected<Error> syntaxError(std::string_view text, const std::string &fileName,
                                  std::size_t byte, std::string_view what) {
    return fail(ErrorCode::BadInput, "no valid JSON: " + plainMessage(what),
                locationOf(text, byte, fileName));
}

Result<void> checkShape(std::string_view text, const std::string &fileName) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
        return fail(ErrorCode::BadInput, "the file is empty; expected JSON", Location{fileName});
    if (const std::size_t byte = tooDeepAt(text); byte != std::string_view::npos)
        return fail(ErrorCode::BadInput,
                    "nested deeper than " + std::to_string(deepestJson) + " levels",
                    locationOf(text, byte, fileName));
    return {};
}

// The parser takes a NUL byte for the end of the text and does not look behind it.
Result<void> checkEnd(std::string_view text, const std::string &fileName) {
    const std::size_t byte = text.find('\0');
    if (byte == std::string_view::npos)
        return {};
    return fail(ErrorCode::BadInput, "no valid JSON: a NUL byte", locationOf(text, byte, fileName));
}

// Passes everything on and keeps the parser's own complaint.
class Forwarder final : public nlohmann::json_sax<Json> {
public:
    explicit Forwarder(nlohmann::json_sax<Json> &events) : m_events(events) {}

    bool null() override { return m_events.null(); }
    bool boolean(bool value) override { return m_events.boolean(value); }
    bool number_integer(std::int64_t value) override { return m_events.number_integer(value); }
    bool number_unsigned(std::uint64_t value) override { return m_events.number_unsigned(value); }
    bool number_float(double value, const std::string &text) override {
        return m_events.number_float(value, text);
    }
    bool string(std::string &value) override { return m_events.string(value); }
    bool binary(binary_t &value) override { return m_events.binary(value); }
    bool start_object(std::size_t size) override { return m_events.start_object(size); }
    bool key(std::string &value) override { return m_events.key(value); }
    bool end_object() override { return m_events.end_object(); }
    bool start_array(std::size_t size) override { return m_events.start_array(size); }
    bool end_array() override { return m_events.end_array(); }
    bool parse_error(std::size_t position, const std::string &,
                     const Json::exception &error) override {
        m_position = position;
        m_message = error.what();
        return false;
    }

    std::size_t position() const { return m_position; }
    const std::string &message() const { return m_message; }

private:
    nlohmann::json_sax<Json> &m_events;
    std::size_t m_position = 0; // bytes read
    std::string m_message;      // "" no syntax error
};

} // namespace

Location locationOf(std::string_view text, std::size_t byte, const std::string &fileName) {
    const std::string_view before = text.substr(0, std::min(byte, text.size()));
    const auto lineBreaks = std::count(before.begin(), before.end(), '\n');
    const std::size_t lastBreak = before.rfind('\n');
    const std::string_view inLine =
        lastBreak == std::string_view::npos ? before : before.substr(lastBreak + 1);
    // Bytes 10xxxxxx continue a character.
    const auto characters = std::count_if(inLine.begin(), inLine.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    return Location{fileName, static_cast<int>(lineBreaks) + 1, static_cast<int>(characters) + 1};
}

Result<Json> parseJson(std::string_view text, const std::string &fileName) {
    if (const auto shape = checkShape(text, fileName); !shape)
        return tl::unexpected(shape.error());
    try {
        Json value = Json::parse(text.begin(), text.end());
        if (const auto end = checkEnd(text, fileName); !end)
            return tl::unexpected(end.error());
        return value;
    } catch (const Json::parse_error &error) {
        return syntaxError(text, fileName, error.byte > 0 ? error.byte - 1 : 0, error.what());
    } catch (const Json::exception &error) { // a number out of range; has no place
        return fail(ErrorCode::BadInput, "no valid JSON: " + plainMessage(error.what()),
                    Location{fileName});
    }
}

Result<void> readJson(std::string_view text, const std::string &fileName,
                      nlohmann::json_sax<Json> &events) {
    if (const auto shape = checkShape(text, fileName); !shape)
        return shape;
    Forwarder forwarder(events);
    Json::sax_parse(text.begin(), text.end(), &forwarder);
    if (!forwarder.message().empty())
        return syntaxError(text, fileName, forwarder.position() > 0 ? forwarder.position() - 1 : 0,
                           forwarder.message());
    return checkEnd(text, fileName);
}

std::string jsonText(const Json &value) {
    // Containers can be huge: print the kind and the size rather than megabytes that are then cut.
    if (value.is_structured() && value.size() > 16)
        return value.is_array() ? "an array of " + std::to_string(value.size()) + " values"
                                : "an object of " + std::to_string(value.size()) + " keys";
    return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), 80);
}

} // namespace tpscope
