// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

// Reading JSON nobody vouches for: one clear error, never an exception and never a deep recursion.
namespace tpscope {

// Values nested deeper are refused: copying and printing a JSON value recurse.
constexpr int deepestJson = 100;

// The place of a byte of text: line and column from 1, column in UTF-8 characters. Bytes past the
// end count as the end.
Location locationOf(std::string_view text, std::size_t byte, const std::string &fileName);

// Errors: BadInput with line and column: syntax, invalid UTF-8, numbers out of range, nesting,
// empty text. A key given twice keeps its last value, as in Python's json.
Result<nlohmann::json> parseJson(std::string_view text, const std::string &fileName);

// Calls `events` for each value of the text instead of building it. A handler stops the reading by
// returning false; the caller then knows why. Errors: as above.
Result<void> readJson(std::string_view text, const std::string &fileName,
                      nlohmann::json_sax<nlohmann::json> &events);

// A value as it stands in the file, shortened for a message: `"float33"`, `[1, 2, ...`.
std::string jsonText(const nlohmann::json &value);

} // namespace tpscope
