// SPDX-License-Identifier: GPL-3.0-or-later
// Mixture of experts: router, products by expert, weighted sum.
#include <ATen/ATen.h>

#include <limits>
#include <stdexcept>

#include "exec/execution.h"

namespace tpscope {

namespace {

// Source: transformers 5.24 models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3TopkRouter.
std::pair<at::Tensor, at::Tensor> chooseInGroups(const at::Tensor &x, const at::Tensor &weight,
                                                 const at::Tensor &correction, const ModuleConstants &constants) {
    const at::Tensor scores = at::sigmoid(at::linear(x.to(at::kFloat), weight.to(at::kFloat)));
    const at::Tensor forChoice = scores + correction.to(at::kFloat);
    const std::int64_t each = scores.size(-1) / constants.expertGroups;
    const at::Tensor grouped = forChoice.view({-1, constants.expertGroups, each});
    const at::Tensor best = std::get<0>(at::topk(grouped, std::min<std::int64_t>(2, each), -1)).sum(-1);
    const at::Tensor groups = std::get<1>(at::topk(best, constants.chosenGroups, -1));
    const at::Tensor open = at::zeros_like(best).scatter(1, groups, 1).unsqueeze(-1).expand_as(grouped).reshape_as(scores);
    const at::Tensor indices = std::get<1>(
        at::topk(forChoice.masked_fill(open == 0, -std::numeric_limits<double>::infinity()), constants.topK, -1));
    at::Tensor chosen = scores.gather(1, indices);
    if (constants.sumsToOne)
        chosen = chosen / (chosen.sum(-1, true) + 1e-20);
    return {(chosen * constants.routedScaling).to(x.scalar_type()), indices};
}

} // namespace

at::Tensor firstsThenSeconds(const at::Tensor &x) {
    return at::cat({x.slice(-1, 0, std::nullopt, 2), x.slice(-1, 1, std::nullopt, 2)}, -1);
}

std::pair<at::Tensor, at::Tensor> chooseExperts(const at::Tensor &x, const at::Tensor &weight, const at::Tensor *bias,
                                                const at::Tensor *correction, const ModuleConstants &constants) {
    if (correction && constants.expertGroups > 0)
        return chooseInGroups(x, weight, *correction, constants);
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

void checkExperts(const at::Tensor &weight, const Instruction &instruction) {
    if (weight.size(0) != instruction.width)
        throw std::runtime_error("a weight of " + std::to_string(weight.size(0)) + " experts meets a module of " +
                                 std::to_string(instruction.width));
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

// Source: transformers 5.24 distributed/expert_parallel.py AllReduceEP.
void ownExperts(const Instruction &instruction, Execution &execution) {
    const std::int64_t experts = instruction.width;
    const at::Tensor &indices = execution.input(instruction, 0);
    const at::Tensor elsewhere = at::floor_divide(indices, experts).ne(execution.model.rank());
    execution.slot(instruction.out[0]) = at::remainder(indices, experts).masked_fill(elsewhere, experts);
    execution.slot(instruction.out[1]) = execution.input(instruction, 1).masked_fill(elsewhere, 0.0);
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
                                           execution.parameter(instruction, 1), execution.parameter(instruction, 2),
                                           execution.constants(instruction));
    execution.slot(instruction.out[0]) = std::move(scores);
    execution.slot(instruction.out[1]) = std::move(indices);
}

// One matrix-vector product a token and chosen expert: a decode has few tokens.
void expertProduct(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor &indices = execution.input(instruction, 1);
    const at::Tensor &stored = *execution.parameter(instruction, 0);
    checkExperts(stored, instruction);
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
