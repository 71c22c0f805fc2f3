// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/rankoutlet.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

namespace tpscope {

Result<RankOutlet> RankOutlet::open(int rank) {
    RankOutlet outlet;
    outlet.m_fds = RankChannelFds::fromEnvironment();
    if (!outlet.m_fds) {
        constexpr std::uint64_t capacity = RankBoard::defaultCapacity;
        outlet.m_ownStatus = std::make_unique<RankStatus>();
        outlet.m_ownEvents.resize(capacity);
        outlet.m_page = RankPage(outlet.m_ownStatus.get(), outlet.m_ownEvents.data(), capacity);
        return outlet;
    }
    for (const int fd : {outlet.m_fds->frames, outlet.m_fds->board, outlet.m_fds->listener})
        if (fd >= 0)
            ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    auto board = RankBoard::attach(outlet.m_fds->board);
    if (!board)
        return tl::unexpected(board.error());
    if (rank < 0 || rank >= board->ranks())
        return fail(ErrorCode::BadInput, "RANK is " + std::to_string(rank) + ", but the launcher made room for " +
                                             std::to_string(board->ranks()));
    outlet.m_board.emplace(std::move(*board));
    outlet.m_page = outlet.m_board->page(rank);
    return outlet;
}

void RankOutlet::send(const nlohmann::json &message) const {
    if (!m_fds)
        return;
    const std::string frame = encodeFrame(message);
    std::size_t sent = 0;
    while (sent < frame.size()) {
        const ssize_t step = ::send(m_fds->frames, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (step > 0)
            sent += static_cast<std::size_t>(step);
        else if (!(step < 0 && errno == EINTR))
            return; // the launcher is gone; so is this rank, at its next look
    }
}

Result<nlohmann::json> RankOutlet::request() {
    for (;;) {
        auto message = m_reader.next();
        if (!message)
            return tl::unexpected(message.error());
        if (*message)
            return std::move(**message);
        if (!readMore(true))
            return fail(ErrorCode::BadInput, "the launcher ended before it said what to run");
    }
}

bool RankOutlet::stopWanted() {
    if (!m_fds || m_stop)
        return m_stop;
    const bool alive = readMore(false);
    for (auto message = m_reader.next(); message && *message; message = m_reader.next())
        m_stop = m_stop || (**message)["type"] == "cancel";
    m_stop = m_stop || !alive;
    return m_stop;
}

// False when the launcher is gone.
bool RankOutlet::readMore(bool wait) {
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t got = ::recv(m_fds->frames, buffer.data(), buffer.size(), wait ? 0 : MSG_DONTWAIT);
        if (got > 0)
            m_reader.feed(std::span<const char>(buffer.data(), static_cast<std::size_t>(got)));
        else if (got < 0 && errno == EINTR)
            continue;
        return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
    }
}

} // namespace tpscope
