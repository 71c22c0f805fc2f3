// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

namespace tpscope {
namespace {

// Names longer than this are no typing error of a name we know; keeps nearest() quick on hostile
// input.
constexpr std::size_t longestName = 512;

std::string folded(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos)
        return {};
    text = text.substr(first, text.find_last_not_of(blanks) - first + 1);
    std::string out(text);
    for (char &c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

struct Nearness {
    std::size_t distance = 0;
    std::size_t prefix = 0; // bytes both start with
};

// nullopt: too far to be meant.
std::optional<Nearness> nearness(const std::string &word, const std::string &candidate) {
    if (candidate.size() > longestName)
        return std::nullopt;
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t limit = longer * 3 / 5;
    if (longer - std::min(word.size(), candidate.size()) > limit)
        return std::nullopt; // the lengths alone differ by more
    const std::size_t distance = editDistance(word, candidate);
    if (distance > limit)
        return std::nullopt;
    const auto end =
        std::mismatch(word.begin(), word.end(), candidate.begin(), candidate.end()).first;
    return Nearness{distance, static_cast<std::size_t>(end - word.begin())};
}

// Length of the well-formed UTF-8 character at the start of text; 0 when there is none (Unicode
// table 3-7).
std::size_t characterLength(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80)
        return 1;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < length)
        return 0;
    unsigned char low = 0x80, high = 0xBF; // of the second byte
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF)
        if (byte(i) < low || byte(i) > high)
            return 0;
    return length;
}

} // namespace

std::size_t editDistance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
    std::iota(above.begin(), above.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, above);
        std::swap(above, row);
    }
    return above[b.size()];
}

std::vector<std::string> nearestFew(std::string_view word,
                                    const std::vector<std::string> &candidates, std::size_t count) {
    const std::string wanted = word.size() > longestName ? std::string() : folded(word);
    if (wanted.empty())
        return {};
    std::vector<std::pair<Nearness, const std::string *>> near;
    for (const std::string &candidate : candidates)
        if (const auto found = nearness(wanted, folded(candidate)))
            near.emplace_back(*found, &candidate);
    std::stable_sort(near.begin(), near.end(), [](const auto &x, const auto &y) {
        return x.first.distance != y.first.distance ? x.first.distance < y.first.distance
                                                    : x.first.prefix > y.first.prefix;
    });
    std::vector<std::string> out;
    for (std::size_t i = 0; i < std::min(count, near.size()); ++i)
        out.push_back(*near[i].second);
    return out;
}

std::string nearest(std::string_view word, const std::vector<std::string> &candidates) {
    auto few = nearestFew(word, candidates, 1);
    return few.empty() ? std::string() : std::move(few.front());
}

std::string formatBytes(std::uint64_t bytes) {
    constexpr std::array units{"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000)
        return std::to_string(bytes) + " B";
    double value = static_cast<double>(bytes) / 1000.0;
    std::size_t unit = 0;
    // 999.95 would be printed as 1000.0
    while (value >= 999.95 && unit + 1 < units.size()) {
        value /= 1000.0;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %s", value, units[unit]);
    return text;
}

std::string shortened(std::string_view text, std::size_t maxBytes) {
    constexpr std::string_view dots = "...";
    std::string out;
    std::size_t cut = 0; // where the dots can go
    while (!text.empty()) {
        const std::size_t length = characterLength(text);
        const auto first = static_cast<unsigned char>(text[0]);
        if (length == 0)
            out += "?";
        else if (first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0))
            out += ' ';
        else
            out += text.substr(0, length);
        if (out.size() > maxBytes)
            return out.substr(0, cut) + std::string(dots.substr(0, maxBytes));
        if (out.size() + dots.size() <= maxBytes)
            cut = out.size();
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

std::string inQuotes(std::string_view text, std::size_t maxBytes) {
    return '"' + shortened(text, maxBytes) + '"';
}

} // namespace tpscope
