// SPDX-License-Identifier: GPL-3.0-or-later
// Shards of every style put together again give the tensor, for even, uneven and empty shards.
#include <QtTest>
#include <numeric>
#include <rapidcheck.h>

#include "lint/layout.h"
#include "shard/shardlayout.h"

using namespace tpscope;

namespace {

// Row-major indices of the elements a rank holds, in its own storage order.
std::vector<std::int64_t> localElements(const Shape &shape, const Placement &placement, int tp, int rank) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(elementCount(shape)));
    std::iota(all.begin(), all.end(), 0);
    if (placement.kind == PlacementKind::PlainTensor || placement.kind == PlacementKind::Replicate)
        return all;
    const auto dim = static_cast<std::size_t>(placement.dim);
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < shape.size(); ++d)
        (d < dim ? outer : inner) *= d == dim ? 1 : shape[d];
    std::vector<std::int64_t> local;
    const auto held = heldIntervals(shape[dim], tp, Rank(rank), placement.splitFactor);
    for (std::int64_t o = 0; o < outer; ++o)
        for (const Interval &interval : held)
            for (std::int64_t i = interval.begin; i < interval.end; ++i)
                for (std::int64_t n = 0; n < inner; ++n)
                    local.push_back((o * shape[dim] + i) * inner + n);
    return local;
}

Shape anyShape(int dims) {
    Shape shape;
    for (int d = 0; d < dims; ++d)
        shape.push_back(*rc::gen::inRange<std::int64_t>(1, dims == 3 ? 8 : 24));
    return shape;
}

} // namespace

class ShardProperty : public QObject {
    Q_OBJECT
private slots:
    void shardsReassemble();
    void chunksAreTorchs();
    void chunksOfChunksStayInPlace();
};

void ShardProperty::shardsReassemble() {
    const bool holds = rc::check("every element lies on exactly one rank, or on all", [] {
        const auto styles = parallelStyles();
        const ParallelStyle &style = styles[*rc::gen::inRange<std::size_t>(0, styles.size())];
        const int dims = *rc::gen::inRange(1, 4);
        const Shape shape = anyShape(dims);
        RC_PRE(!(style.needsTwoDims && dims < 2)); // refused at load
        const int tp = *rc::gen::inRange(1, 10);
        const std::string parameter = *rc::gen::element(std::string("weight"), std::string("bias"));
        const Placement placement = placementOf(&style, parameter, shape);
        const bool whole = placement.kind == PlacementKind::PlainTensor || placement.kind == PlacementKind::Replicate;
        std::vector<int> seen(static_cast<std::size_t>(elementCount(shape)), 0);
        for (int r = 0; r < tp; ++r)
            for (const std::int64_t element : localElements(shape, placement, tp, r))
                ++seen[static_cast<std::size_t>(element)];
        for (const int count : seen)
            RC_ASSERT(count == (whole ? tp : 1));
    });
    QVERIFY(holds);
}

void ShardProperty::chunksAreTorchs() {
    const bool holds = rc::check("ceil(n/p) each, the last ones shorter or empty", [] {
        const auto n = *rc::gen::inRange<std::int64_t>(0, 2000);
        const int tp = *rc::gen::inRange(1, 10);
        const std::int64_t chunk = (n + tp - 1) / tp;
        std::int64_t next = 0;
        for (int r = 0; r < tp; ++r) {
            const Interval held = chunkOf(n, tp, Rank(r));
            RC_ASSERT(held.begin == next);
            RC_ASSERT(held.size() == std::min(chunk, n - next));
            next = held.end;
        }
        RC_ASSERT(next == n);
    });
    QVERIFY(holds);
}

void ShardProperty::chunksOfChunksStayInPlace() {
    const bool holds = rc::check("what a whole input is split into is what a shard of it would be", [] {
        const auto n = *rc::gen::inRange<std::int64_t>(1, 300);
        const int tp = *rc::gen::inRange(1, 10);
        RC_ASSERT(Layout::full(n, tp).ownChunk() == Layout::chunked(n, tp));
        const int groups = *rc::gen::inRange(1, 4);
        const Layout strided = Layout::chunked(n, tp, groups);
        RC_ASSERT(strided.isPartition());
        std::int64_t sum = 0;
        for (int r = 0; r < tp; ++r)
            sum += strided.width(r);
        RC_ASSERT(sum == n);
    });
    QVERIFY(holds);
}

QTEST_APPLESS_MAIN(ShardProperty)
#include "shardproperty.moc"
