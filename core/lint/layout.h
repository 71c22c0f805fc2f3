// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/shardlayout.h"

namespace tpscope {

// The channels one rank holds of a dimension, as global ids in storage order. Neighbouring intervals are merged; an
// id may occur twice. No interval is empty; no intervals: the rank holds nothing. Negative ids: broken channels, which
// hold nothing that one rank alone would compute.
using Channels = std::vector<Interval>;

std::int64_t width(const Channels &channels);
// Positions [begin, end) of what is stored.
Channels slice(const Channels &channels, std::int64_t begin, std::int64_t end);
void append(Channels &channels, Interval interval); // merges it with the last one where they touch
// The broken channels that stand at positions [begin, end).
Interval broken(std::int64_t begin, std::int64_t end);
// What an elementwise operation gives: channels both hold at a position, broken ones elsewhere. A single channel is
// broadcast. Widths are equal, or one of them is 1.
Channels commonChannels(const Channels &a, const Channels &b);

// Who holds which channels of a dimension of `extent` channels: replicated, sharded, uneven, empty, strided and broken
// layouts are one type. A value, cheap to copy; immutable. Made of nothing (the default) it stands for "not tracked".
class Layout {
public:
    Layout() = default;
    static Layout full(std::int64_t extent, int ranks);
    static Layout of(std::int64_t extent, std::vector<Channels> byRank);
    // torch.chunk of extent in `groups` interleaved groups, as shard/ cuts a parameter.
    static Layout chunked(std::int64_t extent, int ranks, int groups = 1);

    bool tracked() const { return m_data != nullptr; }
    std::int64_t extent() const { return m_data->extent; }
    int ranks() const { return m_data->ranks; }
    const Channels &at(int rank) const { return m_data->byRank[m_data->same ? 0 : static_cast<std::size_t>(rank)]; }
    std::int64_t width(int rank) const { return m_data->widths[m_data->same ? 0 : static_cast<std::size_t>(rank)]; }

    bool isFull() const { return m_data->full; }           // every rank holds 0..extent in order
    bool isPartition() const { return m_data->partition; } // every channel lies on exactly one rank, once
    bool isSame() const { return m_data->same; }           // all ranks hold the same
    bool sameWidths(const Layout &other) const;            // rank by rank
    bool operator==(const Layout &other) const;

    // What each rank has after it takes its torch.chunk of what it holds.
    Layout ownChunk() const;

    // What each rank has, for people: "all 128", "its own 64 of 128", "22, 22, 20 of 64 (by rank)".
    std::string text() const;

private:
    struct Data {
        std::int64_t extent = 0;
        int ranks = 1;
        bool same = true;
        bool full = true;
        bool partition = false;
        std::vector<Channels> byRank; // one entry when all ranks hold the same
        std::vector<std::int64_t> widths;
    };
    explicit Layout(std::shared_ptr<const Data> data) : m_data(std::move(data)) {}
    std::shared_ptr<const Data> m_data;
};

} // namespace tpscope
