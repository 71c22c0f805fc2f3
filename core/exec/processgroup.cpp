// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/processgroup.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "exec/threadexchange.h"
#include "shard/shardlayout.h"

namespace tpscope {
namespace {

constexpr int exchangeTag = 7;

bool isLoopback(const std::string &host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::unique_ptr<c10d::ProcessGroupGloo> gloo(const c10::intrusive_ptr<c10d::Store> &store,
                                             const ProcessGroup::Place &place, bool loopback) {
    auto options = c10d::ProcessGroupGloo::Options::create(place.timeout);
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface && *interface)
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    else if (loopback)
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    else
        options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    return std::make_unique<c10d::ProcessGroupGloo>(store, place.rank, place.size, options);
}

} // namespace

class ProcessGroup::Meeting {
public:
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
    std::shared_ptr<ThreadExchange> exchange; // nullptr: over Gloo
};

struct ProcessGroup::Impl {
    // Buffers of one size and type, kept for the next exchange of that size.
    struct Buffers {
        at::Tensor own;             // what this rank puts in, padded
        at::Tensor all;             // [ranks * elements]
        std::vector<at::Tensor> of; // its chunks, one a rank
    };

    c10::intrusive_ptr<c10d::Store> store;
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
    std::shared_ptr<ThreadExchange> exchange; // instead of the group
    std::map<std::pair<std::int64_t, at::ScalarType>, Buffers> buffers;
    std::vector<at::Tensor> one{1}; // c10d takes lists of one tensor
    std::vector<c10::intrusive_ptr<c10d::Work>> pending;
    at::Tensor flag = at::zeros({1}, at::kLong);

    Buffers &buffersOf(int size, std::int64_t elements, at::ScalarType type) {
        Buffers &found = buffers[{elements, type}];
        if (found.of.empty()) {
            const c10::InferenceMode normal(false); // they outlive whatever mode the first exchange was in
            found.own = at::zeros({elements}, at::dtype(type));
            found.all = at::empty({size * elements}, at::dtype(type));
            found.of = found.all.view({size, elements}).unbind(0);
        }
        return found;
    }

    void receive(at::Tensor &into, int from) {
        one[0] = into;
        pending.push_back(group->recv(one, from, exchangeTag));
    }
    void send(const at::Tensor &tensor, int to) {
        one[0] = tensor;
        pending.push_back(group->send(one, to, exchangeTag));
    }
    void finish() {
        for (const auto &work : pending)
            work->wait();
        pending.clear();
    }
};

ProcessGroup::ProcessGroup(Place place, std::unique_ptr<Impl> impl) : m_place(place), m_impl(std::move(impl)) {}
ProcessGroup::~ProcessGroup() {
    if (m_impl->exchange)
        m_impl->exchange->leave();
}

std::unique_ptr<ProcessGroup> ProcessGroup::meet(const std::string &host, std::uint16_t port, int listener,
                                                 const Place &place) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = place.rank == 0;
    options.numWorkers = static_cast<std::size_t>(place.size);
    options.timeout = place.timeout;
    if (listener >= 0)
        options.masterListenFd = listener;
    auto impl = std::make_unique<Impl>();
    impl->store = c10::make_intrusive<c10d::TCPStore>(host, options);
    impl->group = c10::intrusive_ptr<c10d::ProcessGroupGloo>::unsafe_steal_from_new(
        gloo(impl->store, place, isLoopback(host)).release());
    return std::unique_ptr<ProcessGroup>(new ProcessGroup(place, std::move(impl)));
}

std::shared_ptr<ProcessGroup::Meeting> ProcessGroup::makeMeeting() { return std::make_shared<Meeting>(); }

std::shared_ptr<ProcessGroup::Meeting> ProcessGroup::makeMeetingInMemory(int size) {
    auto meeting = makeMeeting();
    meeting->exchange = std::make_shared<ThreadExchange>(size);
    return meeting;
}

std::unique_ptr<ProcessGroup> ProcessGroup::meet(Meeting &meeting, const Place &place) {
    auto impl = std::make_unique<Impl>();
    impl->exchange = meeting.exchange;
    if (meeting.exchange)
        return std::unique_ptr<ProcessGroup>(new ProcessGroup(place, std::move(impl)));
    impl->store = meeting.store;
    impl->group = c10::intrusive_ptr<c10d::ProcessGroupGloo>::unsafe_steal_from_new(
        gloo(impl->store, place, true).release());
    return std::unique_ptr<ProcessGroup>(new ProcessGroup(place, std::move(impl)));
}

void ProcessGroup::waits(bool now) const {
    if (!m_place.status)
        return;
    m_place.status->inCollective.store(now ? 1 : 0, std::memory_order_relaxed);
    m_place.status->beat.fetch_add(1, std::memory_order_relaxed);
}

void ProcessGroup::count(const char *kind, const at::Tensor &own) {
    CollectiveCount &counted = m_counts[kind];
    ++counted.count;
    counted.bytes += static_cast<std::int64_t>(own.nbytes());
}

void ProcessGroup::allReduce(at::Tensor &tensor) {
    if (m_place.size == 1)
        return;
    count("all_reduce", tensor);
    Impl &impl = *m_impl;
    if (impl.exchange) {
        const std::vector<at::Tensor> terms = impl.exchange->meet(m_place.rank, tensor);
        if (!std::ranges::all_of(terms, [&](const at::Tensor &term) { return term.numel() == tensor.numel(); }))
            throw std::runtime_error("the ranks sum tensors of different sizes");
        tensor.zero_();
        for (const at::Tensor &term : terms)
            tensor.add_(term.view(tensor.sizes()));
        return;
    }
    waits(true);
    if (m_place.collectives == Collectives::Gloo) {
        impl.one[0] = tensor;
        impl.group->allreduce(impl.one)->wait();
        waits(false);
        return;
    }
    const at::Tensor flat = tensor.view({-1});
    auto &buffers = impl.buffersOf(m_place.size, tensor.numel(), tensor.scalar_type()).of;
    for (int rank = 0; rank < m_place.size; ++rank)
        if (rank != m_place.rank)
            impl.receive(buffers[static_cast<std::size_t>(rank)], rank);
    for (int rank = 0; rank < m_place.size; ++rank)
        if (rank != m_place.rank)
            impl.send(flat, rank);
    impl.finish();
    waits(false);
    if (m_place.size == 2) { // a sum of two has one order
        flat.add_(buffers[static_cast<std::size_t>(1 - m_place.rank)]);
        return;
    }
    buffers[static_cast<std::size_t>(m_place.rank)].copy_(flat);
    flat.copy_(buffers[0]);
    for (std::size_t rank = 1; rank < buffers.size(); ++rank)
        flat.add_(buffers[rank]);
}

void ProcessGroup::allGatherLast(const at::Tensor &local, at::Tensor &full) {
    const std::int64_t width = full.size(-1);
    const std::int64_t rows = width ? full.numel() / width : 0;
    const Interval own = chunkOf(width, m_place.size, Rank(m_place.rank));
    if (local.dim() != full.dim() || local.size(-1) != own.size() || local.numel() != rows * own.size())
        throw std::runtime_error("gathering " + std::to_string(width) + " columns, rank " +
                                 std::to_string(m_place.rank) + " must have " + std::to_string(own.size()) +
                                 ", but has " + std::to_string(local.size(-1)));
    count("all_gather", local);
    Impl &impl = *m_impl;
    if (impl.exchange) {
        at::cat_out(full, impl.exchange->meet(m_place.rank, local), -1);
        return;
    }
    const std::int64_t chunk = chunkOf(width, m_place.size, Rank(0)).size(); // the longest
    Impl::Buffers &buffers = impl.buffersOf(m_place.size, rows * chunk, local.scalar_type());
    buffers.own.narrow(0, 0, local.numel()).copy_(local.reshape({-1}));
    waits(true);
    if (m_place.collectives == Collectives::Gloo) {
        // Gloo's all-gather takes equal sizes: short chunks travel padded.
        impl.group->_allgather_base(buffers.all, buffers.own)->wait();
    } else {
        exchangeParts(buffers.own, width, rows);
    }
    waits(false);
    const at::Tensor columns = full.view({rows, width});
    for (int rank = 0; rank < m_place.size; ++rank) {
        const Interval held = chunkOf(width, m_place.size, Rank(rank));
        const at::Tensor &from = buffers.of[static_cast<std::size_t>(rank)];
        if (held.size() > 0)
            columns.narrow(1, held.begin, held.size())
                .copy_(from.narrow(0, 0, rows * held.size()).view({rows, held.size()}));
    }
}

// One-shot: every rank sends its part, unpadded, to every other; empty parts are not sent.
void ProcessGroup::exchangeParts(const at::Tensor &own, std::int64_t width, std::int64_t rows) {
    Impl &impl = *m_impl;
    auto &buffers = impl.buffersOf(m_place.size, own.numel(), own.scalar_type()).of;
    const auto elements = [&](int rank) { return rows * chunkOf(width, m_place.size, Rank(rank)).size(); };
    for (int rank = 0; rank < m_place.size; ++rank)
        if (rank != m_place.rank && elements(rank) > 0) {
            at::Tensor part = buffers[static_cast<std::size_t>(rank)].narrow(0, 0, elements(rank));
            impl.receive(part, rank);
        }
    const std::int64_t mine = elements(m_place.rank);
    for (int rank = 0; rank < m_place.size; ++rank)
        if (rank != m_place.rank && mine > 0)
            impl.send(own.narrow(0, 0, mine), rank);
    impl.finish();
    if (mine > 0)
        buffers[static_cast<std::size_t>(m_place.rank)].narrow(0, 0, mine).copy_(own.narrow(0, 0, mine));
}

at::Tensor ProcessGroup::allToAllRows(const at::Tensor &rows, const std::vector<std::int64_t> &send,
                                      const std::vector<std::int64_t> &receive) {
    count("all_to_all", rows);
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[0] = std::accumulate(receive.begin(), receive.end(), std::int64_t(0));
    at::Tensor out = at::empty(shape, rows.options());
    Impl &impl = *m_impl;
    if (impl.exchange) {
        const auto sizes = impl.exchange->meet(m_place.rank, at::tensor(at::ArrayRef<std::int64_t>(send), at::kLong));
        const auto all = impl.exchange->meet(m_place.rank, rows);
        std::int64_t begin = 0;
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            const std::int64_t before = sizes[rank].narrow(0, 0, m_place.rank).sum().item<std::int64_t>();
            const std::int64_t count = receive[rank];
            out.narrow(0, begin, count).copy_(all[rank].narrow(0, before, count));
            begin += count;
        }
        return out;
    }
    waits(true);
    at::Tensor own = rows;
    std::vector<std::int64_t> from = receive, to = send;
    impl.group->alltoall_base(out, own, from, to)->wait();
    waits(false);
    return out;
}

bool ProcessGroup::any(bool flag) {
    if (m_place.size == 1)
        return flag;
    if (m_impl->exchange) {
        const at::Tensor own = at::full({1}, flag ? 1 : 0, at::kLong);
        return std::ranges::any_of(m_impl->exchange->meet(m_place.rank, own),
                                   [](const at::Tensor &said) { return said.item<std::int64_t>() != 0; });
    }
    m_impl->flag.fill_(flag ? 1 : 0);
    m_impl->one[0] = m_impl->flag;
    m_impl->group->allreduce(m_impl->one)->wait(); // a sum: more than none
    return m_impl->flag.item<std::int64_t>() > 0;
}

} // namespace tpscope
