// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/activation.h"

#include <ATen/ATen.h>

#include <array>

namespace tpscope {
namespace {

constexpr std::array rows{
    ActivationFunction{"silu", [](at::Tensor &out, const at::Tensor &x) { at::silu_out(out, x); },
                       [](const at::Tensor &x) { return at::silu(x); }},
    ActivationFunction{"gelu", [](at::Tensor &out, const at::Tensor &x) { at::gelu_out(out, x); },
                       [](const at::Tensor &x) { return at::gelu(x); }},
    ActivationFunction{"gelu_pytorch_tanh", [](at::Tensor &out, const at::Tensor &x) { at::gelu_out(out, x, "tanh"); },
                       [](const at::Tensor &x) { return at::gelu(x, "tanh"); }},
    ActivationFunction{"gelu_new", [](at::Tensor &out, const at::Tensor &x) { at::gelu_out(out, x, "tanh"); },
                       [](const at::Tensor &x) { return at::gelu(x, "tanh"); }},
    ActivationFunction{"relu", [](at::Tensor &out, const at::Tensor &x) { at::relu_out(out, x); },
                       [](const at::Tensor &x) { return at::relu(x); }},
    ActivationFunction{"tanh", [](at::Tensor &out, const at::Tensor &x) { at::tanh_out(out, x); },
                       [](const at::Tensor &x) { return at::tanh(x); }},
    ActivationFunction{"sigmoid", [](at::Tensor &out, const at::Tensor &x) { at::sigmoid_out(out, x); },
                       [](const at::Tensor &x) { return at::sigmoid(x); }},
};

} // namespace

const ActivationFunction *findActivation(const std::string &name) {
    for (const ActivationFunction &row : rows)
        if (row.name == name)
            return &row;
    return nullptr;
}

std::string activationNames() {
    std::string names;
    for (const ActivationFunction &row : rows)
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

} // namespace tpscope
