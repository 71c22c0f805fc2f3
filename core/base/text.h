// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Small text helpers for messages. Pure functions, thread-safe, no locale.
namespace tpscope {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string
// alignment), in bytes. Time grows with the product of the lengths: for names, not for files.
std::size_t editDistance(std::string_view a, std::string_view b);

// The candidate a person most likely meant, by edit distance without regard to ASCII case and outer
// blanks; of equals, the one that shares the longer prefix, then the first. "" when none is near:
// more than three fifths of the longer text differ.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

// Up to `count` near candidates, nearest first, by the same rule.
std::vector<std::string> nearestFew(std::string_view word,
                                    const std::vector<std::string> &candidates, std::size_t count);

// "512 B", "8.4 MB", "16.1 GB": decimal units, one decimal.
std::string formatBytes(std::uint64_t bytes);

// At most maxBytes bytes of text for a message: cut at a character and ended with "...", control
// characters and bytes that are not UTF-8 replaced, so that it prints on one line everywhere.
std::string shortened(std::string_view text, std::size_t maxBytes = 60);

// The text between double quotes, shortened as above, for names in messages.
std::string inQuotes(std::string_view text, std::size_t maxBytes = 120);

} // namespace tpscope
