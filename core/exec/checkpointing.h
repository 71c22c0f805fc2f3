// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tpscope {

// A part of a forward: values from values; both may be undefined tensors.
using ForwardPart = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor> &)>;

// What part gives for inputs, with nothing kept for the backward, which runs the part again: activation checkpointing.
// transformers checkpoints without reentrance (use_reentrant=False): both runs are made with gradients enabled, so hooks
// that a forward registers are registered in the first. part must stay callable until the backward is through.
std::vector<at::Tensor> checkpointed(const ForwardPart &part, const std::vector<at::Tensor> &inputs);

} // namespace tpscope
