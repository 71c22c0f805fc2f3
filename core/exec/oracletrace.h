// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "exec/inference.h"
#include "run/oracle.h"

// Where two executions of one model part: the values of their steps, compared in call order. Internal to core/exec.
namespace tpscope {

struct TracedValue {
    Step step = Step::Operation;
    OpKind kind = OpKind::Add; // Step::Operation
    ModuleIndex module;
    int out = 0;       // slot
    int in = -1;       // first operand's slot; -1 none
    int number = 0;    // of the module's results, counted over its operations only
    at::Tensor value;  // float; undefined: not to be compared
};

// One prefill. Instructions that write a value each of their results; integers (indices of experts) as floats.
// Throws what Inference::run() throws.
std::vector<TracedValue> traceValues(const ExecutionModel &model, const std::vector<std::vector<std::int64_t>> &ids,
                                     const RunClock &clock, RankPage page);

// reference: rank 0's; others pass nothing. The same answer on every rank; nullopt: none parts.
std::optional<Divergence> firstDivergence(const std::vector<TracedValue> &reference,
                                          const std::vector<TracedValue> &own, const ModelDescription &model,
                                          ProcessGroup *group);

} // namespace tpscope
