// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <string>

#include "exec/inference.h"
#include "exec/processgroup.h"
#include "exec/rankoutlet.h"
#include "exec/ranksubject.h"
#include "run/oracle.h"

// One rank's part of `tpscope verify` and `gradcheck` (run/oracle.h): rank 0 computes the reference on its own and
// hands it out; every rank compares what it holds; rank 0 sends what all of them found.
namespace tpscope {

struct OracleJob {
    const OracleRequest &request;
    const RankSubject &subject;
    ProcessGroup *group; // nullptr: one rank
    int rank;
    RankOutlet &outlet;
    const RunClock &clock;
    std::function<void(RankPhase, const std::string &)> say; // where the rank is; the text for people

    int ranks() const { return group ? group->size() : 1; }
    void beat() const { outlet.page().status().beat.fetch_add(1, std::memory_order_relaxed); }
    // Throws Stopped when the launcher wants no more. Not inside an exchange.
    void checkStop() const;
};

// Throws Stopped. A plan whose forward or backward raises is told to the launcher first (oracle::failureMessage).
void runOracleJob(const OracleJob &job);

// The two comparisons. Each ends with rank 0's message. Throw Stopped.
bool compareLogits(const OracleJob &job); // true, the same on every rank: the logits are right
void compareGradients(const OracleJob &job);

// Tells the launcher that the plan raises, and ends this rank. secondary: only because another rank is gone.
[[noreturn]] void planFails(const OracleJob &job, const char *stage, const Error &error);
[[noreturn]] void planFails(const OracleJob &job, const char *stage, const std::exception &error);

} // namespace tpscope
