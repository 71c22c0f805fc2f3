// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/rankchannel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tpscope {
namespace {

// First thing in the shared memory: what whoever attaches must know.
struct BoardHeader {
    std::uint64_t magic = 0;
    std::uint64_t ranks = 0;
    std::uint64_t capacity = 0;
    std::uint64_t eventSize = 0;
};
constexpr std::uint64_t boardMagic = 0x7470'7363'6f70'6531; // "tpscope1"
constexpr std::size_t pageHeader = 128;                     // the status, on cache lines of its own
static_assert(sizeof(RankStatus) <= pageHeader && sizeof(BoardHeader) <= pageHeader);
static_assert(std::is_trivially_copyable_v<Event>);

std::size_t pageBytes(std::uint64_t capacity) {
    const std::size_t bytes = pageHeader + static_cast<std::size_t>(capacity) * sizeof(Event);
    return (bytes + pageHeader - 1) / pageHeader * pageHeader;
}

tl::unexpected<Error> systemError(const char *what) {
    return fail(ErrorCode::RunFailed, std::string(what) + ": " + std::strerror(errno));
}

constexpr std::array boundaryNames{"all_reduce", "all_gather", "split_input", "divide_input",
                                   "add_bias",   "argmax",     "step",        "register_hook"};

std::int32_t operationKinds() {
    std::int32_t count = 0;
    while (name(static_cast<OpKind>(count)) != "?")
        ++count;
    return count;
}

} // namespace

std::string encodeFrame(const nlohmann::json &message) {
    const std::vector<std::uint8_t> body = nlohmann::json::to_cbor(message);
    std::string frame;
    frame.reserve(body.size() + 4);
    for (int shift = 0; shift < 32; shift += 8)
        frame += static_cast<char>((body.size() >> shift) & 0xff);
    frame.append(reinterpret_cast<const char *>(body.data()), body.size());
    return frame;
}

void FrameReader::feed(std::span<const char> bytes) {
    if (m_begin > 0 && m_begin == m_bytes.size()) {
        m_bytes.clear();
        m_begin = 0;
    }
    m_bytes.append(bytes.data(), bytes.size());
}

Result<std::optional<nlohmann::json>> FrameReader::next() {
    if (m_bytes.size() - m_begin < 4)
        return std::nullopt;
    std::uint32_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
        length |= static_cast<std::uint32_t>(static_cast<unsigned char>(m_bytes[m_begin + i])) << (8 * i);
    if (length > maximumLength)
        return fail(ErrorCode::BadInput, "a message of " + std::to_string(length) + " bytes cannot be one");
    if (m_bytes.size() - m_begin - 4 < length)
        return std::nullopt;
    const auto first = m_bytes.begin() + static_cast<std::ptrdiff_t>(m_begin + 4);
    nlohmann::json message = nlohmann::json::from_cbor(first, first + length, true, false);
    m_begin += 4 + length;
    if (message.is_discarded() || !message.is_object() || !message.contains("type") || !message["type"].is_string())
        return fail(ErrorCode::BadInput, "a message is no CBOR map with a \"type\"");
    return std::optional<nlohmann::json>(std::move(message));
}

std::string_view name(RankPhase phase) {
    constexpr std::array<std::string_view, 10> names{"start",   "describe", "rendezvous", "load", "hooks",
                                                     "prefill", "decode",   "report",     "done", "train"};
    const auto index = static_cast<std::size_t>(phase);
    return index < names.size() ? names[index] : "?";
}

std::uint64_t RankPage::read(std::uint64_t from, std::vector<Event> &out, std::uint64_t &lost) const {
    const std::uint64_t end = m_status->written.load(std::memory_order_acquire);
    if (end < from) // nothing a rank of ours does; a scribbled page must not be followed
        return end;
    // The slot of the oldest event may be in the middle of being overwritten: one less than the capacity is safe.
    if (end - from >= m_capacity) {
        lost += end - from - m_capacity + 1;
        from = end - m_capacity + 1;
    }
    const std::size_t before = out.size();
    for (std::uint64_t index = from; index < end; ++index)
        out.push_back(m_slots[index % m_capacity]);
    // What the rank overwrote while we copied is not whole.
    const std::uint64_t now = m_status->written.load(std::memory_order_acquire);
    if (now >= from + m_capacity) {
        const std::uint64_t broken = std::min(now - from - m_capacity + 1, end - from);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(before),
                  out.begin() + static_cast<std::ptrdiff_t>(before + broken));
        lost += broken;
    }
    return end;
}

Result<RankBoard> RankBoard::create(int ranks, std::uint64_t capacity) {
    const int fd = ::memfd_create("tpscope-ranks", MFD_CLOEXEC);
    if (fd < 0)
        return systemError("cannot make shared memory for the ranks");
    const std::size_t bytes = pageHeader + static_cast<std::size_t>(ranks) * pageBytes(capacity);
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
        const auto error = systemError("cannot size the shared memory of the ranks");
        ::close(fd);
        return error;
    }
    auto board = map(fd, bytes);
    if (!board)
        return board;
    new (board->m_base) BoardHeader{boardMagic, static_cast<std::uint64_t>(ranks), capacity, sizeof(Event)};
    board->m_ranks = ranks;
    board->m_capacity = capacity;
    for (int rank = 0; rank < ranks; ++rank)
        new (&board->page(rank).status()) RankStatus;
    return board;
}

Result<RankBoard> RankBoard::attach(int fd) {
    struct stat info {};
    if (::fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(pageHeader)) {
        ::close(fd);
        return fail(ErrorCode::BadInput, "the descriptor given for the board is no shared memory of ranks");
    }
    auto board = map(fd, static_cast<std::size_t>(info.st_size));
    if (!board)
        return board;
    const BoardHeader header = *static_cast<const BoardHeader *>(board->m_base);
    if (header.magic != boardMagic || header.eventSize != sizeof(Event) || header.capacity == 0 ||
        board->m_bytes < pageHeader || header.ranks > (board->m_bytes - pageHeader) / pageBytes(header.capacity))
        return fail(ErrorCode::BadInput, "the shared memory of the ranks is of another version");
    board->m_ranks = static_cast<int>(header.ranks);
    board->m_capacity = header.capacity;
    return board;
}

Result<RankBoard> RankBoard::map(int fd, std::size_t bytes) {
    RankBoard board;
    board.m_fd = fd;
    void *base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return systemError("cannot map the shared memory of the ranks");
    board.m_base = base;
    board.m_bytes = bytes;
    return board;
}

RankBoard::RankBoard(RankBoard &&other) noexcept
    : m_fd(std::exchange(other.m_fd, -1)), m_base(std::exchange(other.m_base, nullptr)), m_bytes(other.m_bytes),
      m_ranks(other.m_ranks), m_capacity(other.m_capacity) {}

RankBoard &RankBoard::operator=(RankBoard &&other) noexcept {
    std::swap(m_fd, other.m_fd);
    std::swap(m_base, other.m_base);
    std::swap(m_bytes, other.m_bytes);
    std::swap(m_ranks, other.m_ranks);
    std::swap(m_capacity, other.m_capacity);
    return *this;
}

RankBoard::~RankBoard() {
    if (m_base)
        ::munmap(m_base, m_bytes);
    if (m_fd >= 0)
        ::close(m_fd);
}

RankPage RankBoard::page(int rank) const {
    char *at = static_cast<char *>(m_base) + pageHeader + static_cast<std::size_t>(rank) * pageBytes(m_capacity);
    return {reinterpret_cast<RankStatus *>(at), reinterpret_cast<Event *>(at + pageHeader), m_capacity};
}

std::int32_t opIndex(OpKind kind) { return static_cast<std::int32_t>(kind); }
std::int32_t opIndex(BoundaryOp op) { return operationKinds() + static_cast<std::int32_t>(op); }

std::vector<std::string> rankOpNames() {
    std::vector<std::string> names;
    for (std::int32_t kind = 0; kind < operationKinds(); ++kind)
        names.emplace_back(name(static_cast<OpKind>(kind)));
    names.insert(names.end(), boundaryNames.begin(), boundaryNames.end());
    return names;
}

} // namespace tpscope
