// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <set>

#include "lint/lint.h"
#include "ranksasthreads.h"

// What a plan does when it is run natively, in lint's words.
namespace tpscope::test {

struct NativeOutcome {
    Outcome outcome = Outcome::Ok; // never Rejected: nothing is refused here that can be run
    std::string why;               // of a failure; the largest error otherwise
    std::set<std::string> wrongParameters;
};

// Runs plans of one model on ranks as threads and judges them against one rank, which is run once. Not thread-safe.
class NativeJudge {
public:
    NativeJudge(const std::string &folder, std::vector<std::int64_t> ids);
    NativeOutcome judge(const ResolvedPlan &plan) const;
    const Subject &subject() const { return m_subject; }

private:
    NativeOutcome judgeGradients(const ResolvedPlan &plan) const;

    Subject m_subject;
    std::vector<std::int64_t> m_ids;
    std::vector<float> m_logits; // [T, V] of one rank
    std::map<std::string, LocalGradient> m_gradients;
    double m_largestGradient = 0.0; // norm of the largest
};

} // namespace tpscope::test
