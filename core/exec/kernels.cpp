// SPDX-License-Identifier: GPL-3.0-or-later
// The forward without gradients: a kernel a row, into buffers that stay. Rounding to the model's dtype happens where
// transformers rounds.
#include "exec/execution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "exec/activation.h"

namespace tpscope {
namespace {

// f(scalar of the tensor's type) for the types models compute in.
template <typename F> void dispatch(at::ScalarType type, F f) {
    switch (type) {
    case at::kFloat: return f(float{});
    case at::kBFloat16: return f(at::BFloat16{});
    case at::kHalf: return f(at::Half{});
    case at::kDouble: return f(double{});
    default: throw std::runtime_error(std::string("no kernel for ") + at::toString(type));
    }
}

// A tensor whose rows (last dimension) can be walked one behind the other.
const at::Tensor &rowMajor(const at::Tensor &tensor, at::Tensor &copy) {
    if (tensor.is_contiguous())
        return tensor;
    copy = tensor.contiguous();
    return copy;
}

void embedding(const Instruction &instruction, Execution &execution) {
    const at::Tensor &ids = execution.input(instruction, 0);
    const LocalParameter &table = *execution.model.parameters[static_cast<std::size_t>(instruction.parameters[0])];
    // Rows this rank holds; others give zeros, which the sum over the ranks fills.
    const bool partial = table.dim == 0 && instruction.distributed;
    const std::int64_t first = partial && !table.held.empty() ? table.held.front().begin : 0;
    const std::int64_t rows = table.tensor.size(0);
    const std::int64_t width = table.tensor.size(1);
    at::Tensor &out =
        execution.output(instruction, 0, {ids.size(0), ids.size(1), width}, table.tensor.scalar_type());
    const auto rowBytes = static_cast<std::size_t>(width) * table.tensor.element_size();
    const auto *from = static_cast<const char *>(table.tensor.const_data_ptr());
    auto *to = static_cast<char *>(out.data_ptr());
    const auto *id = ids.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < ids.numel(); ++i, to += rowBytes) {
        const std::int64_t row = id[i] - first;
        if (row >= 0 && row < rows)
            std::memcpy(to, from + static_cast<std::size_t>(row) * rowBytes, rowBytes);
        else if (partial)
            std::memset(to, 0, rowBytes);
        else
            throw std::runtime_error("token id " + std::to_string(id[i]) + " is outside the embedding");
    }
}

void linear(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor &weight = *execution.parameter(instruction, 0);
    const at::Tensor *bias = execution.parameter(instruction, 1);
    Execution::Scratch &scratch = execution.scratchOf(instruction);
    std::array<std::int64_t, 4> shape{};
    const auto dims = static_cast<std::size_t>(x.dim());
    if (dims > shape.size())
        throw std::runtime_error("a product of more than 4 dimensions");
    std::ranges::copy(x.sizes(), shape.begin());
    shape[dims - 1] = weight.size(0);
    const at::IntArrayRef outShape(shape.data(), dims);
    at::Tensor &out = execution.output(instruction, 0, outShape, x.scalar_type());
    // A reshape of what is not contiguous is a copy, and a buffer that grew may lie where the smaller one lay.
    if (!scratch.a.defined() || scratch.a.data_ptr() != x.data_ptr() || scratch.b.data_ptr() != out.data_ptr() ||
        scratch.a.numel() != x.numel() || !x.is_contiguous()) {
        scratch.a = x.reshape({-1, x.size(-1)});
        scratch.b = out.view({-1, weight.size(0)});
        scratch.c = weight.t();
    }
    if (bias)
        at::addmm_out(scratch.b, *bias, scratch.a, scratch.c);
    else
        at::mm_out(scratch.b, scratch.a, scratch.c);
}

// The weights lie behind one another, so one product gives all outputs side by side; each slot sees its columns.
void fusedLinear(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    Execution::Scratch &scratch = execution.scratchOf(instruction);
    if (!scratch.a.defined() || scratch.a.data_ptr() != x.data_ptr()) {
        std::int64_t columns = 0;
        for (std::size_t i = 0; i < instruction.parameters.size(); ++i)
            columns += execution.parameter(instruction, i)->size(0);
        const at::Tensor &first = *execution.parameter(instruction, 0);
        const std::int64_t width = first.size(1);
        scratch.a = x.reshape({-1, x.size(-1)});
        scratch.b = at::empty({scratch.a.size(0), columns}, x.options());
        scratch.c = first.as_strided({columns, width}, {width, 1}, first.storage_offset()).t();
        std::vector<std::int64_t> shape = x.sizes().vec();
        shape.back() = columns;
        const at::Tensor all = scratch.b.view(shape);
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < instruction.out.size(); ++i) {
            const std::int64_t own = execution.parameter(instruction, i)->size(0);
            execution.slot(instruction.out[i]) = all.narrow(-1, begin, own);
            begin += own;
        }
    }
    at::mm_out(scratch.b, scratch.a, scratch.c);
}

template <typename T>
void normRow(const T *x, const T *weight, T *out, std::int64_t width, float eps, float offset) {
    std::array<float, 8> sums{};
    std::int64_t i = 0;
    for (; i + 8 <= width; i += 8)
        for (std::size_t k = 0; k < 8; ++k) {
            const auto value = static_cast<float>(x[i + static_cast<std::int64_t>(k)]);
            sums[k] += value * value;
        }
    float sum = 0.0F;
    for (; i < width; ++i)
        sum += static_cast<float>(x[i]) * static_cast<float>(x[i]);
    for (const float part : sums)
        sum += part;
    const float scale = 1.0F / std::sqrt(sum / static_cast<float>(width) + eps);
    if (offset != 0.0F) { // Gemma rounds after the product
        for (i = 0; i < width; ++i)
            out[i] = static_cast<T>(static_cast<float>(x[i]) * scale * (offset + static_cast<float>(weight[i])));
        return;
    }
    for (i = 0; i < width; ++i)
        out[i] = weight[i] * static_cast<T>(static_cast<float>(x[i]) * scale);
}

void rmsNorm(const Instruction &instruction, Execution &execution) {
    at::Tensor copy;
    const at::Tensor &x = rowMajor(execution.input(instruction, 0), copy);
    const at::Tensor &weight = *execution.parameter(instruction, 0);
    const std::int64_t width = x.size(-1);
    if (weight.size(0) != width)
        throw std::runtime_error("a norm over " + std::to_string(weight.size(0)) + " channels meets " +
                                 std::to_string(width));
    const auto eps = static_cast<float>(execution.constants(instruction).eps);
    const auto offset = static_cast<float>(execution.constants(instruction).normOffset);
    at::Tensor &out = execution.output(instruction, 0, x.sizes(), x.scalar_type());
    dispatch(x.scalar_type(), [&](auto zero) {
        using T = decltype(zero);
        const auto *from = x.const_data_ptr<T>();
        auto *to = out.data_ptr<T>();
        for (std::int64_t row = 0; row < x.numel(); row += width)
            normRow(from + row, weight.const_data_ptr<T>(), to + row, width, eps, offset);
    });
}

void activation(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    at::Tensor &out = execution.output(instruction, 0, x.sizes(), x.scalar_type());
    execution.constants(instruction).activation->into(out, x);
}

void multiply(const Instruction &instruction, Execution &execution) {
    const at::Tensor &a = execution.input(instruction, 0);
    at::Tensor &out = execution.output(instruction, 0, a.sizes(), a.scalar_type());
    at::mul_out(out, a, execution.input(instruction, 1));
}

void add(const Instruction &instruction, Execution &execution) {
    const at::Tensor &a = execution.input(instruction, 0);
    at::Tensor &out = execution.output(instruction, 0, a.sizes(), a.scalar_type());
    at::add_out(out, a, execution.input(instruction, 1));
}

void viewHeads(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    execution.slot(instruction.out[0]) =
        x.view({x.size(0), x.size(1), -1,
                integerOf(*instruction.operation, "head_dim", execution.constants(instruction).headDim)});
}

void transpose(const Instruction &instruction, Execution &execution) {
    execution.slot(instruction.out[0]) = execution.input(instruction, 0).transpose(1, 2);
}

void mergeHeads(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    execution.slot(instruction.out[0]) = x.reshape({x.size(0), x.size(1), -1});
}

void sliceTokens(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    execution.slot(instruction.out[0]) = execution.allLogits ? x : x.narrow(1, x.size(1) - 1, 1);
}

void slicePositions(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const auto [begin, end] = slicedPositions(*instruction.operation, x.size(-1));
    execution.slot(instruction.out[0]) = x.narrow(-1, begin, end - begin);
}

void scale(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    at::Tensor &out = execution.output(instruction, 0, x.sizes(), x.scalar_type());
    at::mul_out(out, x, at::scalar_tensor(execution.constants(instruction).embedScale, x.options()));
}

// The attention knows from the cache what it may see.
void causalMask(const Instruction &instruction, Execution &execution) {
    execution.slot(instruction.out[0]).reset();
}

void ropeTable(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const RopeFrequencies &rope = *execution.constants(instruction).rope;
    const auto half = static_cast<std::int64_t>(rope.inverse.size());
    // One table for all rows of the batch, or, where padding shifts positions, one for each.
    const std::vector<std::int64_t> shifts =
        execution.cache->padding.empty() ? std::vector<std::int64_t>{0} : execution.cache->padding;
    const std::int64_t shape[] = {static_cast<std::int64_t>(shifts.size()), execution.tokens, 2 * half};
    at::Tensor &cos = execution.output(instruction, 0, shape, x.scalar_type());
    at::Tensor &sin = execution.output(instruction, 1, shape, x.scalar_type());
    dispatch(x.scalar_type(), [&](auto zero) {
        using T = decltype(zero);
        auto *c = cos.data_ptr<T>();
        auto *s = sin.data_ptr<T>();
        for (const std::int64_t shift : shifts)
            for (std::int64_t t = 0; t < execution.tokens; ++t, c += 2 * half, s += 2 * half)
                for (std::int64_t i = 0; i < half; ++i) {
                    const auto position = std::max<std::int64_t>(0, execution.position() + t - shift);
                    const float angle = static_cast<float>(position) * rope.inverse[static_cast<std::size_t>(i)];
                    c[i] = c[i + half] = static_cast<T>(std::cos(angle) * rope.attentionScaling);
                    s[i] = s[i + half] = static_cast<T>(std::sin(angle) * rope.attentionScaling);
                }
    });
}

// x * cos + rotate_half(x) * sin, each product rounded as transformers' separate operations round.
template <typename T> void rotate(const at::Tensor &x, const at::Tensor &cos, const at::Tensor &sin, at::Tensor &out) {
    const std::int64_t width = x.size(3);
    const std::int64_t half = width / 2;
    if (cos.size(-1) != width)
        throw std::runtime_error("rotary tables of " + std::to_string(cos.size(-1)) + " channels meet heads of " +
                                 std::to_string(width));
    const auto *from = x.const_data_ptr<T>();
    auto *to = out.data_ptr<T>();
    const std::int64_t table = cos.size(0) > 1 ? cos.size(1) * width : 0; // to the next row's
    for (std::int64_t b = 0; b < x.size(0); ++b)
        for (std::int64_t h = 0; h < x.size(1); ++h)
            for (std::int64_t t = 0; t < x.size(2); ++t, to += width) {
                const T *row = from + b * x.stride(0) + h * x.stride(1) + t * x.stride(2);
                const T *c = cos.const_data_ptr<T>() + b * table + t * width;
                const T *s = sin.const_data_ptr<T>() + b * table + t * width;
                for (std::int64_t i = 0; i < half; ++i) {
                    to[i] = static_cast<T>(row[i] * c[i]) + static_cast<T>(-row[i + half] * s[i]);
                    to[i + half] =
                        static_cast<T>(row[i + half] * c[i + half]) + static_cast<T>(row[i] * s[i + half]);
                }
            }
}

void rope(const Instruction &instruction, Execution &execution) {
    const at::Tensor &cos = execution.input(instruction, 2);
    const at::Tensor &sin = execution.input(instruction, 3);
    for (std::size_t i = 0; i < 2; ++i) {
        at::Tensor x = execution.input(instruction, i);
        at::Tensor &out = execution.output(instruction, i, x.sizes(), x.scalar_type());
        if (instruction.operation->attributes.contains("interleave"))
            x = firstsThenSeconds(x);
        dispatch(x.scalar_type(), [&](auto zero) { rotate<decltype(zero)>(x, cos, sin, out); });
    }
}

void singleHead(const Instruction &instruction, Execution &execution) {
    execution.slot(instruction.out[0]) = execution.input(instruction, 0).unsqueeze(1);
}

void dropHead(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const at::Tensor filled = x.squeeze(1).narrow(1, 0, execution.positions());
    execution.output(instruction, 0, filled.sizes(), x.scalar_type()).copy_(filled);
}

void catHeads(const Instruction &instruction, Execution &execution) {
    const at::Tensor &a = execution.input(instruction, 0);
    const at::Tensor &all = execution.input(instruction, 1);
    // Of the cache: as many positions as a has.
    const at::Tensor b = all.narrow(2, 0, a.size(2)).expand({-1, a.size(1), -1, -1});
    at::Tensor &out = execution.output(instruction, 0, {a.size(0), a.size(1), a.size(2), a.size(3) + b.size(3)},
                                       a.scalar_type());
    out.narrow(-1, 0, a.size(3)).copy_(a);
    out.narrow(-1, a.size(3), b.size(3)).copy_(b);
}

void splitInput(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    const Interval own = chunkOf(x.size(-1), execution.model.ranks(), Rank(execution.model.rank()));
    execution.slot(instruction.out[0]) = x.narrow(-1, own.begin, own.size());
}

void divideInput(const Instruction &instruction, Execution &execution) {
    const at::Tensor &x = execution.input(instruction, 0);
    at::Tensor &out = execution.output(instruction, 0, x.sizes(), x.scalar_type());
    out.copy_(x).div_(execution.model.ranks());
}

void allReduce(const Instruction &instruction, Execution &execution) {
    at::Tensor &value = execution.slot(instruction.out[0]);
    value = execution.input(instruction, 0);
    if (!value.is_contiguous())
        value = value.contiguous();
    if (execution.model.group)
        execution.model.group->allReduce(value);
}

void allGather(const Instruction &instruction, Execution &execution) {
    const at::Tensor &local = execution.input(instruction, 0);
    std::vector<std::int64_t> shape = local.sizes().vec();
    shape.back() = instruction.width;
    at::Tensor &full = execution.output(instruction, 0, shape, local.scalar_type());
    execution.model.group->allGatherLast(local, full);
}

void addBias(const Instruction &instruction, Execution &execution) {
    at::Tensor &value = execution.slot(instruction.out[0]);
    value = execution.input(instruction, 0);
    value.add_(*execution.parameter(instruction, 0));
}

struct Row {
    OpKind kind;
    Kernel kernel;
};

constexpr std::array rows{
    Row{OpKind::Embedding, embedding},
    Row{OpKind::Linear, linear},
    Row{OpKind::RmsNorm, rmsNorm},
    Row{OpKind::Activation, activation},
    Row{OpKind::Multiply, multiply},
    Row{OpKind::Add, add},
    Row{OpKind::ViewHeads, viewHeads},
    Row{OpKind::Transpose, transpose},
    Row{OpKind::RopeTable, ropeTable},
    Row{OpKind::Rope, rope},
    Row{OpKind::CausalMask, causalMask},
    Row{OpKind::CacheUpdate, kernels::cacheUpdate},
    Row{OpKind::Attend, kernels::attend},
    Row{OpKind::MergeHeads, mergeHeads},
    Row{OpKind::SliceTokens, sliceTokens},
    Row{OpKind::Slice, slicePositions},
    Row{OpKind::SingleHead, singleHead},
    Row{OpKind::DropHead, dropHead},
    Row{OpKind::CatHeads, catHeads},
    Row{OpKind::Scale, scale},
    Row{OpKind::FlattenTokens, kernels::flattenTokens},
    Row{OpKind::BatchTokens, kernels::batchTokens},
    Row{OpKind::Router, kernels::router},
    Row{OpKind::ExpertProduct, kernels::expertProduct},
    Row{OpKind::InterleavedGlu, kernels::interleavedGlu},
    Row{OpKind::CombineExperts, kernels::combineExperts},
};

Kernel operationKernel(OpKind kind) {
    for (const Row &row : rows)
        if (row.kind == kind)
            return row.kernel;
    return nullptr;
}

} // namespace

Kernel kernelOf(const Instruction &instruction) {
    switch (instruction.step) {
    case Step::Operation: return operationKernel(instruction.operation->kind);
    case Step::FusedLinear: return fusedLinear;
    case Step::AddBias: return addBias;
    case Step::SplitInput: return splitInput;
    case Step::DivideInput: return divideInput;
    case Step::AllReduce: return allReduce;
    case Step::AllGather: return allGather;
    case Step::OwnExperts: return kernels::ownExperts;
    case Step::SumInputGradient:
    case Step::SumColumnGradient:
    case Step::DispatchTokens:
    case Step::ReturnTokens:
    case Step::EnterHooked:
    case Step::LeaveHooked: break; // of a list with gradients, which this executor does not run
    }
    return nullptr;
}

at::Tensor &Execution::output(const Instruction &instruction, std::size_t i, at::IntArrayRef shape,
                              at::ScalarType type) {
    at::Tensor &tensor = slot(instruction.out[i]);
    if (!tensor.defined() || tensor.sizes() != shape || tensor.scalar_type() != type)
        tensor = at::empty(shape, at::dtype(type));
    return tensor;
}

const at::Tensor *Execution::parameter(const Instruction &instruction, std::size_t i) const {
    if (i >= instruction.parameters.size() || instruction.parameters[i] == Instruction::none)
        return nullptr;
    return &model.parameters[static_cast<std::size_t>(instruction.parameters[i])]->tensor;
}

} // namespace tpscope
