// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "model/modelsource.h"
#include "run/runconfig.h"

// What every job of a rank begins with, and how it ends early. No LibTorch type in here.
namespace tpscope {

// What ends a rank early.
struct Stopped {
    Error error;
    bool secondary = false; // only noticed that another rank is gone
};

template <typename T> T valueOf(Result<T> result) {
    if (!result)
        throw Stopped{result.error()};
    return std::move(*result);
}

// Model and plan as a rank is told them.
struct RankSubject {
    ModelSource source;
    ModelDescription model;
    std::optional<BuiltinPlan> builtin;
    ResolvedPlan plan;

    // Throws Stopped: what findModel(), describe() and parsePlan() say.
    static RankSubject open(const RunConfig &config);
    ResolvedPlan planOfOneRank() const; // none
};

} // namespace tpscope
