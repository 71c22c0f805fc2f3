// SPDX-License-Identifier: GPL-3.0-or-later
// The forward with gradients: a kernel a row, written as transformers writes it, so that autograd differentiates the same.
#include "exec/trainingkernels.h"

#include <ATen/ATen.h>

#include <array>

#include "exec/activation.h"
#include "exec/gradientedges.h"

namespace tpscope {
namespace {

void set(const Instruction &instruction, TrainingForward &forward, at::Tensor value) {
    forward.slot(instruction.out[0]) = std::move(value);
}

void embedding(const Instruction &instruction, TrainingForward &forward) {
    const LocalParameter &table = *forward.model.parameters[static_cast<std::size_t>(instruction.parameters[0])];
    const at::Tensor &ids = forward.input(instruction, 0);
    if (table.dim != 0 || !instruction.distributed)
        return set(instruction, forward, at::embedding(table.tensor, ids));
    const std::int64_t rows = table.tensor.size(0);
    const std::int64_t first = table.held.empty() ? 0 : table.held.front().begin;
    const at::Tensor local = ids - first;
    const at::Tensor elsewhere = local.lt(0).logical_or(local.ge(rows));
    if (rows == 0)
        return set(instruction, forward, at::zeros({ids.size(0), ids.size(1), table.tensor.size(1)},
                                                   table.tensor.options()));
    const at::Tensor looked = at::embedding(table.tensor, local.masked_fill(elsewhere, 0));
    set(instruction, forward, looked.masked_fill(elsewhere.unsqueeze(-1), 0.0));
}

void linear(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor *bias = forward.parameter(instruction, 1);
    set(instruction, forward,
        at::linear(forward.input(instruction, 0), *forward.parameter(instruction, 0),
                   bias ? std::optional<at::Tensor>(*bias) : std::nullopt));
}

void rmsNorm(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor variance = wide.pow(2).mean(-1, true);
    const at::Tensor normed = wide * at::rsqrt(variance + forward.constants(instruction).eps);
    if (const double offset = forward.constants(instruction).normOffset; offset != 0.0)
        return set(instruction, forward,
                   (normed * (offset + forward.parameter(instruction, 0)->to(at::kFloat))).to(x.scalar_type()));
    set(instruction, forward, *forward.parameter(instruction, 0) * normed.to(x.scalar_type()));
}

void activation(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.constants(instruction).activation->of(forward.input(instruction, 0)));
}

void multiply(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0) * forward.input(instruction, 1));
}

void add(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0) + forward.input(instruction, 1));
}

void viewHeads(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    set(instruction, forward,
        x.view({x.size(0), x.size(1), -1,
                integerOf(*instruction.operation, "head_dim", forward.constants(instruction).headDim)}));
}

void transpose(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0).transpose(1, 2));
}

void mergeHeads(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    set(instruction, forward, x.reshape({x.size(0), x.size(1), -1}));
}

void singleHead(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0).unsqueeze(1));
}

void dropHead(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0).squeeze(1));
}

void catHeads(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &a = forward.input(instruction, 0);
    set(instruction, forward, at::cat({a, forward.input(instruction, 1).expand({-1, a.size(1), -1, -1})}, -1));
}

void slicePositions(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    const auto [begin, end] = slicedPositions(*instruction.operation, x.size(-1));
    set(instruction, forward, x.narrow(-1, begin, end - begin));
}

void scale(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    set(instruction, forward, x * at::scalar_tensor(forward.constants(instruction).embedScale, x.options()));
}

void flattenTokens(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    set(instruction, forward, x.reshape({-1, x.size(-1)}));
}

void batchTokens(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor &x = forward.input(instruction, 0);
    const at::Tensor &like = forward.input(instruction, 1);
    set(instruction, forward, x.reshape({like.size(0), like.size(1), x.size(-1)}));
}

void router(const Instruction &instruction, TrainingForward &forward) {
    auto [scores, indices] = chooseExperts(forward.input(instruction, 0), *forward.parameter(instruction, 0),
                                           forward.parameter(instruction, 1), forward.parameter(instruction, 2),
                                           forward.constants(instruction));
    forward.slot(instruction.out[0]) = std::move(scores);
    forward.slot(instruction.out[1]) = std::move(indices);
}

void expertProduct(const Instruction &instruction, TrainingForward &forward) {
    at::Tensor x = forward.input(instruction, 0);
    const at::Tensor &indices = forward.input(instruction, 1);
    const at::Tensor *bias = forward.parameter(instruction, 1);
    at::Tensor weight = *forward.parameter(instruction, 0);
    if (instruction.operation->attributes.contains("transposed"))
        weight = weight.transpose(1, 2);
    checkExperts(weight, instruction);
    const at::Tensor chosen = weight.index_select(0, indices.flatten());
    if (x.dim() == 2)
        x = x.repeat_interleave(indices.size(1), 0);
    at::Tensor y = at::bmm(chosen, x.reshape({-1, x.size(-1), 1})).squeeze(-1);
    if (bias)
        y = y + bias->index_select(0, indices.flatten());
    set(instruction, forward, y.view({indices.size(0), indices.size(1), weight.size(1)}));
}

void interleavedGlu(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, gluOfPairs(forward.input(instruction, 0), forward.constants(instruction)));
}

void combineExperts(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward,
        (forward.input(instruction, 0) * forward.input(instruction, 1).unsqueeze(-1)).sum(1));
}

// Every token has a label.
void sliceTokens(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0));
}

// The attention masks what lies ahead, and padding.
void causalMask(const Instruction &instruction, TrainingForward &forward) { set(instruction, forward, {}); }

// Training keeps no cache.
void cacheUpdate(const Instruction &instruction, TrainingForward &forward) {
    forward.slot(instruction.out[0]) = forward.input(instruction, 0);
    forward.slot(instruction.out[1]) = forward.input(instruction, 1);
}

void ropeTable(const Instruction &instruction, TrainingForward &forward) {
    const RopeFrequencies &rope = *forward.constants(instruction).rope;
    const at::ScalarType type = forward.input(instruction, 0).scalar_type();
    const at::Tensor inverse = at::tensor(at::ArrayRef<float>(rope.inverse));
    at::Tensor positions = at::arange(forward.tokens).view({1, -1, 1});
    if (!forward.padding.empty())
        positions = (positions - at::tensor(at::ArrayRef<std::int64_t>(forward.padding)).view({-1, 1, 1})).clamp_min(0);
    const at::Tensor angles = positions.to(at::kFloat) * inverse;
    const at::Tensor both = at::cat({angles, angles}, -1);
    forward.slot(instruction.out[0]) = (both.cos() * rope.attentionScaling).to(type);
    forward.slot(instruction.out[1]) = (both.sin() * rope.attentionScaling).to(type);
}

at::Tensor rotateHalf(const at::Tensor &x) {
    const std::int64_t half = x.size(-1) / 2;
    return at::cat({-x.narrow(-1, half, x.size(-1) - half), x.narrow(-1, 0, half)}, -1);
}

void rope(const Instruction &instruction, TrainingForward &forward) {
    const at::Tensor cos = forward.input(instruction, 2).unsqueeze(1);
    const at::Tensor sin = forward.input(instruction, 3).unsqueeze(1);
    for (std::size_t i = 0; i < 2; ++i) {
        at::Tensor x = forward.input(instruction, i);
        if (instruction.operation->attributes.contains("interleave"))
            x = firstsThenSeconds(x);
        forward.slot(instruction.out[i]) = x * cos + rotateHalf(x) * sin;
    }
}

at::Tensor repeatHeads(const at::Tensor &heads, std::int64_t times) {
    return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

void attend(const Instruction &instruction, TrainingForward &forward) {
    const ModuleConstants &self = forward.constants(instruction);
    const at::Tensor &keys = forward.input(instruction, 1);
    const at::Tensor &values = forward.input(instruction, 2);
    const bool windowed = self.window > 0 && forward.tokens >= self.window;
    const HeadPairing pairing =
        pairHeads(forward.input(instruction, 0).size(1), keys.size(1), values.size(1), self.groups,
                  windowed || !forward.padding.empty(), forward.model.attention);
    const at::Tensor q = pairedQueries(forward.input(instruction, 0), pairing);
    const at::Tensor hidden = hiddenKeys(0, forward.tokens, windowed ? self.window : 0, forward.padding);
    if (const at::Tensor *sinks = forward.parameter(instruction, 0))
        return set(instruction, forward,
                   attendWithSinks(q, repeatHeads(keys, pairing.queriesPerKey),
                                   repeatHeads(values, pairing.queriesPerValue), self.scaling, hidden, *sinks)
                       .transpose(1, 2)
                       .contiguous());
    at::Tensor scores =
        at::matmul(q, repeatHeads(keys, pairing.queriesPerKey).transpose(2, 3)) * self.scaling;
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    const at::Tensor weights = at::softmax(scores, -1, at::kFloat).to(q.scalar_type());
    set(instruction, forward,
        at::matmul(weights, repeatHeads(values, pairing.queriesPerValue)).transpose(1, 2).contiguous());
}

void addBias(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.input(instruction, 0) + *forward.parameter(instruction, 0));
}

void splitInput(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, edges::splitInput(forward.input(instruction, 0), forward.model.group));
}

void divideInput(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, edges::divideInput(forward.input(instruction, 0), forward.model.group));
}

void allReduce(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, edges::allReduce(forward.input(instruction, 0), forward.model.group));
}

void allGather(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward,
        edges::allGather(forward.input(instruction, 0), instruction.width, forward.model.group));
}

void sumColumnGradient(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward,
        edges::sumColumnGradient(forward.input(instruction, 0), instruction.width, forward.model.group));
}

void sumInputGradient(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, edges::sumInputGradient(forward.input(instruction, 0), forward.model.group));
}

void enterHooked(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.hooks.enter(instruction.module, forward.input(instruction, 0)));
}

void leaveHooked(const Instruction &instruction, TrainingForward &forward) {
    set(instruction, forward, forward.hooks.leave(instruction.module, forward.input(instruction, 0)));
}

struct OperationRow {
    OpKind kind;
    TrainingKernel kernel;
};

constexpr std::array operations{
    OperationRow{OpKind::Embedding, embedding},
    OperationRow{OpKind::Linear, linear},
    OperationRow{OpKind::RmsNorm, rmsNorm},
    OperationRow{OpKind::Activation, activation},
    OperationRow{OpKind::Multiply, multiply},
    OperationRow{OpKind::Add, add},
    OperationRow{OpKind::ViewHeads, viewHeads},
    OperationRow{OpKind::Transpose, transpose},
    OperationRow{OpKind::RopeTable, ropeTable},
    OperationRow{OpKind::Rope, rope},
    OperationRow{OpKind::CausalMask, causalMask},
    OperationRow{OpKind::CacheUpdate, cacheUpdate},
    OperationRow{OpKind::Attend, attend},
    OperationRow{OpKind::MergeHeads, mergeHeads},
    OperationRow{OpKind::SliceTokens, sliceTokens},
    OperationRow{OpKind::Slice, slicePositions},
    OperationRow{OpKind::SingleHead, singleHead},
    OperationRow{OpKind::DropHead, dropHead},
    OperationRow{OpKind::CatHeads, catHeads},
    OperationRow{OpKind::Scale, scale},
    OperationRow{OpKind::FlattenTokens, flattenTokens},
    OperationRow{OpKind::BatchTokens, batchTokens},
    OperationRow{OpKind::Router, router},
    OperationRow{OpKind::ExpertProduct, expertProduct},
    OperationRow{OpKind::InterleavedGlu, interleavedGlu},
    OperationRow{OpKind::CombineExperts, combineExperts},
};

} // namespace

TrainingKernel trainingKernelOf(const Instruction &instruction) {
    switch (instruction.step) {
    case Step::Operation:
        for (const OperationRow &row : operations)
            if (row.kind == instruction.operation->kind)
                return row.kernel;
        return nullptr;
    case Step::AddBias: return addBias;
    case Step::SplitInput: return splitInput;
    case Step::DivideInput: return divideInput;
    case Step::AllReduce: return allReduce;
    case Step::AllGather: return allGather;
    case Step::SumInputGradient: return sumInputGradient;
    case Step::SumColumnGradient: return sumColumnGradient;
    case Step::EnterHooked: return enterHooked;
    case Step::LeaveHooked: return leaveHooked;
    case Step::DispatchTokens: return expertexchange::dispatchTokens;
    case Step::ReturnTokens: return expertexchange::returnTokens;
    case Step::OwnExperts:
    case Step::FusedLinear: break; // never in a list with gradients
    }
    return nullptr;
}

const at::Tensor *TrainingForward::parameter(const Instruction &instruction, std::size_t i) const {
    if (i >= instruction.parameters.size() || instruction.parameters[i] == Instruction::none)
        return nullptr;
    return &model.parameters[static_cast<std::size_t>(instruction.parameters[i])]->tensor;
}

const ModuleConstants &TrainingForward::constants(const Instruction &instruction) const {
    return model.constants[static_cast<std::size_t>(&instruction - model.list.instructions.data())];
}

} // namespace tpscope
