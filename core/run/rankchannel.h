// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/runtrace.h"

// How a rank process and the process that started it talk. Two ways, neither of which costs the rank a lock, an
// allocation or a system call while it is being timed:
//  - frames: length-prefixed CBOR over a socket, for what happens between timed steps (progress, result, errors);
//  - a board: shared memory in which the rank keeps its phase, its step and its events. Whoever started the rank reads
//    it at leisure, also after the rank has died.
namespace tpscope {

// --- frames ---------------------------------------------------------------------------------------------------------
// A frame is a 32-bit little-endian length and that many bytes of CBOR, a map with the text entry "type".
std::string encodeFrame(const nlohmann::json &message);

// Puts frames together from whatever pieces arrive.
class FrameReader {
public:
    static constexpr std::uint32_t maximumLength = 256u << 20; // longer ones are garbage, not messages
    void feed(std::span<const char> bytes);
    // The next whole message; nullopt inside the Result: more bytes are needed. Error: BadInput, the stream is garbage
    // from here on.
    Result<std::optional<nlohmann::json>> next();

private:
    std::string m_bytes;
    std::size_t m_begin = 0;
};

// --- board ----------------------------------------------------------------------------------------------------------
enum class RankPhase : std::int32_t { Start, Describe, Rendezvous, Load, Hooks, Prefill, Decode, Report, Done, Train };
std::string_view name(RankPhase phase); // "start", "describe", "rendezvous", ...

// Where a rank is. Written by the rank alone, with relaxed atomics.
struct RankStatus {
    std::atomic<std::int32_t> phase{0};
    std::atomic<std::int32_t> token{-1};        // decode step; -1 prefill or before
    std::atomic<std::int32_t> module{-1};       // last module entered: index into ModuleTree::modules
    std::atomic<std::int32_t> inCollective{0};  // waits for the other ranks
    std::atomic<std::uint64_t> beat{0};         // grows with every instruction and every loaded tensor
    std::atomic<std::uint64_t> written{0};      // events ever written
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// One rank's page: its status and a ring of its latest events.
class RankPage {
public:
    RankPage() = default;
    RankPage(RankStatus *status, Event *slots, std::uint64_t capacity)
        : m_status(status), m_slots(slots), m_capacity(capacity) {}

    RankStatus &status() const { return *m_status; }
    std::uint64_t capacity() const { return m_capacity; }

    // By the rank only. Overwrites the oldest event once `capacity` were written.
    void push(const Event &event) const {
        const std::uint64_t index = m_status->written.load(std::memory_order_relaxed);
        m_slots[index % m_capacity] = event;
        m_status->written.store(index + 1, std::memory_order_release);
    }
    const Event &at(std::uint64_t index) const { return m_slots[index % m_capacity]; }

    // By the reader: appends the events from index `from` on that are still there and whole, and returns the index to
    // read from next. `lost` grows by those that were overwritten meanwhile.
    std::uint64_t read(std::uint64_t from, std::vector<Event> &out, std::uint64_t &lost) const;

private:
    RankStatus *m_status = nullptr;
    Event *m_slots = nullptr;
    std::uint64_t m_capacity = 0;
};

// The pages of all ranks in one anonymous shared memory object; gone when the last process that maps it ends.
class RankBoard {
public:
    static constexpr std::uint64_t defaultCapacity = std::uint64_t{1} << 17; // events a rank; untouched pages cost nothing

    // Errors: RunFailed (no memory, no descriptors).
    static Result<RankBoard> create(int ranks, std::uint64_t capacity = defaultCapacity);
    static Result<RankBoard> attach(int fd); // takes over fd
    RankBoard(RankBoard &&) noexcept;
    RankBoard &operator=(RankBoard &&) noexcept;
    ~RankBoard();

    int fd() const { return m_fd; }
    int ranks() const { return m_ranks; }
    RankPage page(int rank) const;

private:
    RankBoard() = default;
    static Result<RankBoard> map(int fd, std::size_t bytes);
    int m_fd = -1;
    void *m_base = nullptr;
    std::size_t m_bytes = 0;
    int m_ranks = 0;
    std::uint64_t m_capacity = 0;
};

// --- names ----------------------------------------------------------------------------------------------------------
// Names of the operations of Event::op: the kinds of model/forwardprogram.h, then what stands between modules.
enum class BoundaryOp { AllReduce, AllGather, SplitInput, DivideInput, AddBias, Argmax, Step, Register };
std::int32_t opIndex(OpKind kind);
std::int32_t opIndex(BoundaryOp op);
std::vector<std::string> rankOpNames();

} // namespace tpscope
