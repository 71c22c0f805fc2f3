// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "exec/processgroup.h"

// What ranks tell each other to compare results. Every rank calls the same functions in the same order. group nullptr:
// one rank. Internal to core/exec.
namespace tpscope::exchange {

// Rank 0's tensor on every rank; others pass anything of its shape and type, or an undefined tensor and say what it is.
at::Tensor ofFirst(const at::Tensor &mine, at::IntArrayRef shape, at::ScalarType type, ProcessGroup *group);
// The same where only rank 0 knows the shape (at most 7 dimensions).
at::Tensor ofFirst(const at::Tensor &mine, at::ScalarType type, ProcessGroup *group);
// Every rank's numbers, [rank][i]; equally many on every rank.
std::vector<std::vector<double>> ofAll(const std::vector<double> &mine, ProcessGroup *group);
// The sum over the ranks, a tensor of its own.
at::Tensor sum(const at::Tensor &mine, ProcessGroup *group);

} // namespace tpscope::exchange
