// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/layout.h"

#include <algorithm>

namespace tpscope {
namespace {

bool coversOnce(const std::vector<Channels> &byRank, std::int64_t extent) {
    Channels all;
    for (const Channels &channels : byRank)
        all.insert(all.end(), channels.begin(), channels.end());
    std::ranges::sort(all, {}, &Interval::begin);
    std::int64_t next = 0;
    for (const Interval &interval : all) {
        if (interval.begin != next)
            return false;
        next = interval.end;
    }
    return next == extent;
}

Channels everything(std::int64_t extent) { return extent > 0 ? Channels{{0, extent}} : Channels{}; }

} // namespace

std::int64_t width(const Channels &channels) {
    std::int64_t sum = 0;
    for (const Interval &interval : channels)
        sum += interval.size();
    return sum;
}

void append(Channels &channels, Interval interval) {
    if (interval.size() <= 0)
        return;
    if (!channels.empty() && channels.back().end == interval.begin)
        channels.back().end = interval.end;
    else
        channels.push_back(interval);
}

Channels slice(const Channels &channels, std::int64_t begin, std::int64_t end) {
    Channels out;
    std::int64_t position = 0;
    for (const Interval &interval : channels) {
        const std::int64_t first = std::max(begin, position);
        const std::int64_t last = std::min(end, position + interval.size());
        append(out, {interval.begin + first - position, interval.begin + last - position});
        position += interval.size();
    }
    return out;
}

// Twice as far below zero as the position, so that intervals of different places never touch or overlap.
Interval broken(std::int64_t begin, std::int64_t end) { return {-2 * end - 1, -2 * end - 1 + (end - begin)}; }

Channels commonChannels(const Channels &a, const Channels &b) {
    if (a.empty() || b.empty()) // torch broadcasts one against none to none
        return {};
    const std::int64_t wide = std::max(width(a), width(b));
    Channels out;
    for (std::int64_t position = 0; position < wide;) {
        const Channels left = width(a) == 1 ? a : slice(a, position, wide);
        const Channels right = width(b) == 1 ? b : slice(b, position, wide);
        const std::int64_t run = std::min({left.front().size(), right.front().size(), wide - position});
        const bool same = left.front().begin == right.front().begin;
        append(out, same ? Interval{left.front().begin, left.front().begin + run} : broken(position, position + run));
        position += run;
    }
    return out;
}

Layout Layout::full(std::int64_t extent, int ranks) {
    auto data = std::make_shared<Data>();
    data->extent = extent;
    data->ranks = ranks;
    data->byRank = {everything(extent)};
    data->widths = {extent};
    data->partition = ranks == 1;
    return Layout(std::move(data));
}

Layout Layout::of(std::int64_t extent, std::vector<Channels> byRank) {
    auto data = std::make_shared<Data>();
    data->extent = extent;
    data->ranks = static_cast<int>(byRank.size());
    data->partition = coversOnce(byRank, extent);
    data->same = std::ranges::all_of(byRank, [&](const Channels &c) { return c == byRank.front(); });
    if (data->same)
        byRank.resize(1);
    data->full = data->same && byRank.front() == everything(extent);
    data->byRank = std::move(byRank);
    for (const Channels &channels : data->byRank)
        data->widths.push_back(tpscope::width(channels));
    return Layout(std::move(data));
}

Layout Layout::chunked(std::int64_t extent, int ranks, int groups) {
    std::vector<Channels> byRank;
    byRank.reserve(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
        byRank.push_back(heldIntervals(extent, ranks, Rank(r), groups));
    return of(extent, std::move(byRank));
}

bool Layout::sameWidths(const Layout &other) const {
    if (m_data == other.m_data)
        return true;
    if (m_data->same && other.m_data->same)
        return m_data->widths == other.m_data->widths;
    for (int r = 0; r < ranks(); ++r)
        if (width(r) != other.width(r))
            return false;
    return true;
}

bool Layout::operator==(const Layout &other) const {
    if (m_data == other.m_data)
        return true;
    if (!m_data || !other.m_data)
        return false;
    return m_data->extent == other.m_data->extent && m_data->same == other.m_data->same &&
           m_data->byRank == other.m_data->byRank;
}

Layout Layout::ownChunk() const {
    std::vector<Channels> byRank;
    for (int r = 0; r < ranks(); ++r) {
        const Interval own = chunkOf(width(r), ranks(), Rank(r));
        byRank.push_back(slice(at(r), own.begin, own.end));
    }
    return of(extent(), std::move(byRank));
}

std::string Layout::text() const {
    const std::string of = std::to_string(extent());
    if (isFull())
        return "all " + of;
    bool even = true;
    for (int r = 1; r < ranks(); ++r)
        even = even && width(r) == width(0);
    if (even)
        return (isPartition() ? "its own " : "") + std::to_string(width(0)) + " of " + of;
    std::string sizes;
    const int shown = std::min(ranks(), 4);
    for (int r = 0; r < shown; ++r)
        sizes += (r ? ", " : "") + std::to_string(width(r));
    return sizes + (ranks() > shown ? ", ..." : "") + " of " + of + " (by rank)";
}

} // namespace tpscope
