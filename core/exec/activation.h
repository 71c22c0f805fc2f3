// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tpscope {

// An activation function by the name a config gives it (ACT2FN of transformers 5.24 activations.py).
struct ActivationFunction {
    std::string_view name;
    void (*into)(at::Tensor &out, const at::Tensor &x); // without gradients; out has x's shape
    at::Tensor (*of)(const at::Tensor &x);              // differentiable
};

const ActivationFunction *findActivation(const std::string &name); // nullptr: unknown
std::string activationNames();                                     // for messages

} // namespace tpscope
