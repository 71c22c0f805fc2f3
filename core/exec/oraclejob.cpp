// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/oraclejob.h"

#include "run/oraclemessages.h"

namespace tpscope {
namespace {

bool waitsForOthers(const OracleJob &job) {
    return job.outlet.page().status().inCollective.load(std::memory_order_relaxed) != 0;
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
    const bool right = !job.request.logits || compareLogits(job);
    if (job.request.gradients && right)
        compareGradients(job);
}

} // namespace tpscope
