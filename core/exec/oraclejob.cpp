// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/oraclejob.h"

#include "exec/instructions.h"
#include "run/oraclemessages.h"

namespace tpscope {
namespace {

bool waitsForOthers(const OracleJob &job) {
    return job.outlet.page().status().inCollective.load(std::memory_order_relaxed) != 0;
}

// grouped_mm, which transformers computes experts with, refuses rows that are no multiple of 16 bytes; our own products
// do not care. One rank that fails is enough, and every rank sees the same.
void checkGroupedProducts(const OracleJob &job) {
    constexpr std::int64_t alignment = 16;
    const ShardLayout layout = shardLayout(job.subject.model, job.subject.plan);
    const auto list = lower(job.subject.model, job.subject.plan, layout, {.fuse = false});
    if (!list)
        return; // told where the list is made to be run
    for (const Instruction &instruction : list->instructions) {
        if (instruction.step != Step::Operation || instruction.operation->kind != OpKind::ExpertProduct)
            continue;
        const std::string &weight = list->parameters[static_cast<std::size_t>(instruction.parameters.front())];
        const ParameterShard *shard = layout.find(weight);
        for (std::size_t rank = 0; shard && rank < shard->localShapes.size(); ++rank)
            if (const std::int64_t bytes =
                    shard->localShapes[rank].back() * static_cast<std::int64_t>(elementSize(shard->dtype));
                bytes % alignment != 0)
                planFails(job, oracle::forwardStage,
                          Error{ErrorCode::CannotRun, "rows of " + weight + " are " + std::to_string(bytes) +
                                                          " bytes on rank " + std::to_string(rank) +
                                                          "; grouped_mm needs multiples of 16 and raises",
                                {}});
    }
}

} // namespace

void OracleJob::checkStop() const {
    if (outlet.stopWanted())
        throw Stopped{{ErrorCode::Cancelled, "stopped", {}}};
}

void planFails(const OracleJob &job, const char *stage, const Error &error) {
    const bool secondary = waitsForOthers(job);
    job.outlet.send({{"type", oracle::failureMessage},
                     {"stage", stage},
                     {"message", error.text()},
                     {"secondary", secondary}});
    throw Stopped{error, secondary};
}

void planFails(const OracleJob &job, const char *stage, const std::exception &error) {
    const std::string what = error.what();
    planFails(job, stage, Error{ErrorCode::CannotRun, what.substr(0, what.find('\n')), {}});
}

void runOracleJob(const OracleJob &job) {
    checkGroupedProducts(job);
    const bool right = !job.request.logits || compareLogits(job);
    if (job.request.gradients && right)
        compareGradients(job);
}

} // namespace tpscope
