// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/checkpointing.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tpscope {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Cut off from the forward around it, asking for gradients where that one does.
std::vector<at::Tensor> apart(const std::vector<at::Tensor> &inputs) {
    std::vector<at::Tensor> out;
    for (const at::Tensor &input : inputs)
        out.push_back(input.defined() ? input.detach().requires_grad_(input.requires_grad()) : input);
    return out;
}

struct Held : torch::CustomClassHolder {
    ForwardPart part;
    std::vector<at::Tensor> inputs;
};

// anchor: asks for gradients, as parameters of the part do, where no input does.
struct Again : torch::autograd::Function<Again> {
    static variable_list forward(AutogradContext *context, at::TensorList /*inputs*/, const at::Tensor & /*anchor*/,
                                 at::TensorList values, const c10::intrusive_ptr<Held> &held) {
        context->saved_data["held"] = c10::IValue::make_capsule(held);
        context->saved_data["values"] = static_cast<std::int64_t>(values.size());
        variable_list out;
        for (const at::Tensor &value : values)
            out.push_back(value.alias());
        return out;
    }

    static variable_list backward(AutogradContext *context, const variable_list &gradients) {
        const auto held = c10::static_intrusive_pointer_cast<Held>(context->saved_data["held"].toCapsule());
        const at::AutoGradMode enabled(true);
        const std::vector<at::Tensor> inputs = apart(held->inputs);
        variable_list outputs, arriving;
        std::size_t next = 0;
        for (const at::Tensor &output : held->part(inputs))
            if (output.defined() && output.requires_grad()) {
                const at::Tensor &gradient = gradients.at(next++);
                if (!gradient.defined())
                    continue;
                outputs.push_back(output);
                arriving.push_back(gradient);
            }
        if (!outputs.empty())
            torch::autograd::backward(outputs, arriving);
        variable_list out;
        for (const at::Tensor &input : inputs)
            if (input.defined() && input.requires_grad())
                out.push_back(input.grad());
        out.resize(out.size() + 2 + static_cast<std::size_t>(context->saved_data["values"].toInt()));
        return out;
    }
};

} // namespace

std::vector<at::Tensor> checkpointed(const ForwardPart &part, const std::vector<at::Tensor> &inputs) {
    std::vector<at::Tensor> results = part(apart(inputs));
    std::vector<at::Tensor> given, values;
    for (const at::Tensor &input : inputs)
        if (input.defined() && input.requires_grad())
            given.push_back(input);
    for (const at::Tensor &result : results)
        if (result.defined() && result.requires_grad())
            values.push_back(result.detach());
    if (values.empty())
        return results;
    auto held = c10::make_intrusive<Held>();
    held->part = part;
    held->inputs = inputs;
    const variable_list outputs = Again::apply(at::TensorList(given), at::zeros({}).requires_grad_(),
                                               at::TensorList(values), held);
    std::size_t next = 0;
    for (at::Tensor &result : results)
        if (result.defined() && result.requires_grad())
            result = outputs.at(next++);
    return results;
}

} // namespace tpscope
