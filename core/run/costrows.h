// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "run/costmodel.h"

namespace tpscope {

// A tensor's local shape; nothing for None and for what is no tensor (a cache).
using LocalShape = std::optional<Shape>;

// In a shape: as many as there are positions in the cache, unknown to the walk.
constexpr std::int64_t positionsDim = -1;

// What one row sees of its operation on one rank.
struct OpScope {
    const Operation &operation;
    const Module &self;
    std::vector<LocalShape> in;         // by operation.in
    std::vector<Shape> parameters;      // local shapes of operation.parameters that self has, in order
    double elementBytes = 4.0;          // of activations
    double parameterElementBytes = 4.0; // of parameters
};

struct OpCost {
    std::vector<LocalShape> out; // by operation.out
    WorkItem work;               // module and layer are filled by the walk
};

// The cost row of an operation kind: local shapes out, and what is read, written, computed and launched. Errors:
// CannotRun, where shapes do not meet.
Result<OpCost> costOf(const OpScope &scope);

} // namespace tpscope
