// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "graph/hooksites.h"
#include "run/hardwareprofile.h"
#include "run/runtrace.h"
#include "shard/shardlayout.h"

// The decode cost model (REFERENCE.md section 6): a walk over the forward programs with the shapes one rank holds gives
// a list of work items; a profile turns items into seconds. No tensor is touched; everything here is simulated.
namespace tpscope {

// One step of the walk on one rank, in call order: an operation, or a collective that a style put at a module's edge.
// Work on the cache grows with the context: what a position adds is kept apart.
struct WorkItem {
    bool isCollective = false;
    std::string_view op;          // "linear", "all_reduce"; static storage
    ModuleIndex module;
    int layer = -1;               // -1 outside layers
    // Operation.
    double weightBytes = 0.0;     // of the local shard that is read; of an embedding only the rows looked up
    double activationBytes = 0.0; // read and written
    double cacheBytesPerPosition = 0.0;
    double flops = 0.0;           // multiplies and adds
    double flopsPerPosition = 0.0;
    std::int64_t positionCap = 0; // attends to at most so many positions (sliding window); 0 all
    int kernels = 0;              // launched one by one, without a compiler
    int fusedKernels = 0;         // what a compiler leaves: products, attention, reductions; views and pointwise fuse
    // Collective.
    double messageBytes = 0.0;    // what this rank puts in
    double fullBytes = 0.0;       // n of the formula: the reduced message, or the gathered whole
};

// What one forward asks of the ranks. Ranks that hold the same shapes do the same work, so work is kept once a kind of
// rank; all kinds have lists of equal length with collectives at equal places.
struct ForwardWork {
    int batch = 1;
    int tokens = 1;                           // query tokens a sequence: 1 in decode
    std::vector<std::vector<WorkItem>> kinds; // [0] is rank 0's
    std::vector<std::size_t> kindOf;          // by rank
    const std::vector<WorkItem> &of(Rank rank) const {
        return kinds[kindOf[static_cast<std::size_t>(rank.value)]];
    }
};

// Walks the model's programs on each kind of rank. Errors: Unsupported (the family's flow is not known), CannotRun (shapes that
// do not meet, as in a plan whose forward fails; says the module and both shapes).
Result<ForwardWork> forwardWork(const ModelDescription &model, const ResolvedPlan &plan, int batch, int tokens);

// What rank 0 puts into exchanges in one forward with gradients and its backward, all parameters training, by kind; hooks
// included. Errors: those of forwardWork(); Unsupported where tokens travel to the ranks of their experts.
Result<std::map<std::string, CollectiveCount>> trainingCollectives(const ModelDescription &model,
                                                                   const ResolvedPlan &plan, HookMode hooks, int batch,
                                                                   int tokens);

// The decoder layer a module belongs to (its own or an ancestor's layer_idx), -1 outside layers.
int layerOf(const ModuleTree &tree, ModuleIndex module);

// Sums of one rank's items at a context of so many positions.
struct WorkTotals {
    double weightBytes = 0.0;     // W_r
    double cacheBytes = 0.0;      // KV_r
    double activationBytes = 0.0;
    double flops = 0.0;
    int kernels = 0;
    int fusedKernels = 0;
    std::map<std::string, CollectiveCount> collectives;
};
WorkTotals totals(const std::vector<WorkItem> &items, std::int64_t positions);

// Seconds by a profile. compiled chooses which kernels are counted.
class CostModel {
public:
    CostModel(const HardwareProfile &profile, DType dtype, Collectives transport, int ranks, bool compiled);

    // The longer of moving the bytes and computing, and t_k a kernel.
    double computeSeconds(const WorkItem &item, std::int64_t positions) const;
    // T_allreduce = alpha + min((p-1) n / b, 2 (p-1)/p n / b); T_allgather = alpha + (p-1)/p n_full / b.
    // 0 where the profile has no figures (missing() says so).
    double collectiveSeconds(const WorkItem &item) const;
    double launchSeconds() const { return m_launchSeconds; }
    // Statements about figures that were not there for this collective or number of ranks.
    std::vector<std::string> gaps(const std::vector<WorkItem> &items) const;

private:
    const HardwareProfile *m_profile;
    Collectives m_transport;
    int m_ranks;
    bool m_compiled;
    double m_bytesPerSecond;
    double m_flopsPerSecond;
    double m_kernelSeconds;
    double m_launchSeconds;
    const CollectiveFigures *m_allReduce;
    const CollectiveFigures *m_allGather;
};

} // namespace tpscope
