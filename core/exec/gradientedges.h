// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "exec/processgroup.h"

// What a style does at a module's edge, with gradients: each function gives the value and what its backward does to the
// gradient. Source: transformers 5.24, distributed/tensor_parallel.py and parallel_utils.py, and the backward of DTensor's
// redistribute. group nullptr: one rank, where all of them are the identity.
namespace tpscope::edges {

// value, whose gradient reaches x as backward(gradient). Without gradients just value.
at::Tensor withBackward(const at::Tensor &x, const at::Tensor &value,
                        std::function<at::Tensor(const at::Tensor &)> backward);

at::Tensor sumInputGradient(const at::Tensor &x, ProcessGroup *group); // identity; all-reduce
at::Tensor sumColumnGradient(const at::Tensor &x, std::int64_t columns, ProcessGroup *group); // of the last columns
at::Tensor splitInput(const at::Tensor &x, ProcessGroup *group);       // own chunk of the last dim; all-gather
at::Tensor divideInput(const at::Tensor &x, ProcessGroup *group);      // by the number of ranks; the same
at::Tensor allReduce(const at::Tensor &x, ProcessGroup *group);        // sum; identity
at::Tensor splitRows(const at::Tensor &x, ProcessGroup &group);  // own chunk of the first dim; all-gather
at::Tensor gatherRows(const at::Tensor &x, std::int64_t rows, ProcessGroup &group); // all chunks; own chunk
// The first send[0] rows to rank 0, the next send[1] to rank 1, ..., and receive[r] from rank r; the way back.
at::Tensor exchangeRows(const at::Tensor &x, const std::vector<std::int64_t> &send,
                        const std::vector<std::int64_t> &receive, ProcessGroup &group);
at::Tensor allGather(const at::Tensor &x, std::int64_t width, ProcessGroup *group); // all chunks; own chunk

} // namespace tpscope::edges
