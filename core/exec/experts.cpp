// SPDX-License-Identifier: GPL-3.0-or-later
// Mixture of experts: router, products by expert, weighted sum.
#include <ATen/ATen.h>

#include <stdexcept>

#include "exec/execution.h"

namespace tpscope {

std::pair<at::Tensor, at::Tensor> chooseExperts(const at::Tensor &x, const at::Tensor &weight, const at::Tensor *bias,
                                                const ModuleConstants &constants) {
    const at::Tensor logits = at::linear(x, weight, bias ? std::optional<at::Tensor>(*bias) : std::nullopt);
    if (constants.softmaxChosen) {
        const auto [values, chosen] = at::topk(logits, std::min(constants.topK, logits.size(-1)));
        return {at::softmax(values, 1), chosen};
    }
    const at::Tensor probabilities = at::softmax(logits, -1, at::kFloat);
    auto [scores, indices] = at::topk(probabilities, std::min(constants.topK, probabilities.size(-1)));
    if (constants.sumsToOne)
        scores = scores / scores.sum(-1, true);
    return {scores.to(logits.scalar_type()), indices};
}

at::Tensor gluOfPairs(const at::Tensor &x, const ModuleConstants &constants) {
    const at::Tensor gate = x.slice(-1, 0, std::nullopt, 2).clamp_max(constants.gluLimit);
    const at::Tensor up = x.slice(-1, 1, std::nullopt, 2).clamp(-constants.gluLimit, constants.gluLimit);
    return (up + 1) * (gate * at::sigmoid(gate * constants.gluAlpha));
}

namespace kernels {

void interleavedGlu(const Instruction &instruction, Execution &execution) {
    execution.slot(instruction.out[0]) = gluOfPairs(execution.input(instruction, 0), execution.constants(instruction));
}

void flattenTokens(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    execution.slot(instruction.out[0]) = x.reshape({-1, x.size(-1)});
}

void batchTokens(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor &like = execution.input(instruction, 1);
    execution.slot(instruction.out[0]) = x.view({like.size(0), like.size(1), x.size(-1)});
}

void router(const Instruction &instruction, Execution &execution) {
    auto [scores, indices] = chooseExperts(execution.input(instruction, 0), *execution.parameter(instruction, 0),
                                           execution.parameter(instruction, 1), execution.constants(instruction));
    execution.slot(instruction.out[0]) = std::move(scores);
    execution.slot(instruction.out[1]) = std::move(indices);
}

// One matrix-vector product a token and chosen expert: a decode has few tokens.
void expertProduct(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor &indices = execution.input(instruction, 1);
    const at::Tensor &stored = *execution.parameter(instruction, 0);
    const at::Tensor weight = instruction.operation->attributes.contains("transposed") ? stored.transpose(1, 2) : stored;
    const at::Tensor *bias = execution.parameter(instruction, 1);
    if (x.size(-1) != weight.size(2))
        throw std::runtime_error("an input of " + std::to_string(x.size(-1)) + " channels meets experts of " +
                                 std::to_string(weight.size(2)));
    const std::int64_t tokens = indices.size(0), chosen = indices.size(1);
    at::Tensor &out = execution.output(instruction, 0, {tokens, chosen, weight.size(1)}, x.scalar_type());
    for (std::int64_t n = 0; n < tokens; ++n)
        for (std::int64_t k = 0; k < chosen; ++k) {
            at::Tensor row = out.select(0, n).select(0, k);
            const std::int64_t expert = indices.const_data_ptr<std::int64_t>()[n * chosen + k];
            const bool here = expert < weight.size(0); // else an expert of another rank
            if (weight.size(2) == 0 || !here)
                row.zero_();
            else if (weight.size(1) > 0)
                at::mv_out(row, weight.select(0, expert), x.dim() == 2 ? x.select(0, n) : x.select(0, n).select(0, k));
            if (bias && here)
                row.add_(bias->select(0, expert));
        }
}

void combineExperts(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor &scores = execution.input(instruction, 1);
    at::Tensor &out = execution.output(instruction, 0, {x.size(0), x.size(2)}, x.scalar_type());
    out.copy_((x * scores.unsqueeze(-1)).sum(1));
}

} // namespace kernels
} // namespace tpscope
