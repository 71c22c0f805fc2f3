// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plan/resolvedplan.h"

// Plans nobody wrote: mutations of a family's built-in plan and free ones, as rules merged over the built-in plan, so
// that transformers can be given the same mapping. Deterministic for a seed on every platform.
namespace tpscope::test {

struct RandomPlan {
    std::map<std::string, std::string> rules; // key -> style
    int tp = 2;

    PlanChoice choice() const; // as a plan file with these rules would give
    std::string text() const;  // one line, for a failing test's message
};

class RandomPlans {
public:
    // Both outlive this.
    RandomPlans(const ModelDescription &model, const BuiltinPlan &builtin, std::uint64_t seed);
    RandomPlan next(int smallestTp, int largestTp);

private:
    // What a key can name: a module, or a parameter of one.
    struct Target {
        std::string key;
        const Module *module = nullptr;
        const Parameter *parameter = nullptr;
        std::string inherited; // style, "" none
    };
    std::size_t below(std::size_t count) { return static_cast<std::size_t>(m_random() % count); }
    bool oneIn(std::size_t count) { return below(count) == 0; }
    std::string styleFor(const Target &target);
    void changeOne(RandomPlan &plan);
    void changeBlock(RandomPlan &plan);
    void changeMany(RandomPlan &plan);

    std::vector<Target> m_targets;
    std::vector<const Target *> m_weighted; // targets with a rule, and those with weights of their own, more often
    std::mt19937_64 m_random;
};

} // namespace tpscope::test
