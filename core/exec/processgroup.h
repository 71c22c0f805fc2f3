// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/rankchannel.h"
#include "run/runconfig.h"
#include "run/runtrace.h"

namespace at {
class Tensor;
}

namespace tpscope {

// The ranks of a run and what they exchange: c10d's Gloo process group, met through a store. Not thread-safe: one thread
// of a rank calls it. Functions throw what c10d throws (a peer that is gone, a time-out).
class ProcessGroup {
public:
    struct Place {
        int rank = 0;
        int size = 1;
        Collectives collectives = Collectives::Gloo;
        std::chrono::milliseconds timeout{600'000}; // of one exchange
        // Where it says that it waits for the other ranks; left so when an exchange fails. Outlives the group.
        RankStatus *status = nullptr;
    };

    // Meets at host:port through a TCPStore that rank 0 hosts. listener: a socket that listens there already, for rank 0
    // to take over; -1 none. Gloo connects over loopback when the host is on it, else over the interface
    // GLOO_SOCKET_IFNAME, else over that of this machine's name.
    static std::unique_ptr<ProcessGroup> meet(const std::string &host, std::uint16_t port, int listener,
                                              const Place &place);

    // Ranks that are threads of one process: each calls meet() with the same meeting. They exchange over Gloo as
    // processes do, or hand each other tensors in memory (Collectives make no difference then).
    class Meeting;
    static std::shared_ptr<Meeting> makeMeeting();
    static std::shared_ptr<Meeting> makeMeetingInMemory(int size);
    static std::unique_ptr<ProcessGroup> meet(Meeting &meeting, const Place &place);

    ~ProcessGroup();

    int rank() const { return m_place.rank; }
    int size() const { return m_place.size; }

    // Sum over the ranks, in place; tensor contiguous. With one-shot collectives the terms are added in rank order on
    // every rank, so all hold the same bits.
    void allReduce(at::Tensor &tensor);
    // full [..., width] = the ranks' local [..., chunk of width], side by side; chunks by torch.chunk, so the last may be
    // short or empty. Both contiguous and allocated by the caller. Throws when local is not this rank's chunk.
    void allGatherLast(const at::Tensor &local, at::Tensor &full);
    // The first send[0] rows of rows [sum of send, ...] to rank 0, the next send[1] to rank 1, ...; returns those that came,
    // receive[r] of them from rank r, in the order of the ranks. rows contiguous.
    at::Tensor allToAllRows(const at::Tensor &rows, const std::vector<std::int64_t> &send,
                            const std::vector<std::int64_t> &receive);
    void startCounting() { m_counts.clear(); }
    // What this rank put into exchanges since, by kind: "all_reduce", "all_gather", "all_to_all". any() does not count.
    const std::map<std::string, CollectiveCount> &counts() const { return m_counts; }
    // Returns when every rank has come; true when any rank said true.
    bool any(bool flag);

private:
    struct Impl;
    ProcessGroup(Place place, std::unique_ptr<Impl> impl);
    void waits(bool now) const;
    void count(const char *kind, const at::Tensor &own);
    void exchangeParts(const at::Tensor &own, std::int64_t width, std::int64_t rows);
    Place m_place;
    std::map<std::string, CollectiveCount> m_counts;
    std::unique_ptr<Impl> m_impl;
};

} // namespace tpscope
