// SPDX-License-Identifier: GPL-3.0-or-later
// Expert parallelism with gradients: each rank keeps its part of the tokens, sends each chosen (token, expert) pair to
// the rank of the expert and gets the results back. Source: transformers 5.24 distributed/expert_parallel.py AllToAllEP.
#include <ATen/ATen.h>

#include "exec/gradientedges.h"
#include "exec/trainingkernels.h"

namespace tpscope::expertexchange {
namespace {

std::vector<std::int64_t> numbersOf(const at::Tensor &row) {
    const auto *begin = row.const_data_ptr<std::int64_t>();
    return {begin, begin + row.numel()};
}

} // namespace

void dispatchTokens(const Instruction &instruction, TrainingForward &forward) {
    ProcessGroup &group = *forward.model.group;
    const at::Tensor &allIndices = forward.input(instruction, 1);
    const std::int64_t ranks = group.size(), experts = instruction.width, chosen = allIndices.size(1);
    const at::Tensor states = edges::splitRows(forward.input(instruction, 0), group);
    const Interval own = chunkOf(allIndices.size(0), group.size(), Rank(group.rank()));
    const at::Tensor indices = allIndices.narrow(0, own.begin, own.size()).reshape({-1});
    // Pairs in the order of their experts are in the order of the ranks: each has experts that follow one another.
    const at::Tensor order = at::argsort(indices);
    const at::Tensor toExpert = at::bincount(indices, {}, experts * ranks).view({ranks, experts});
    const std::vector<std::int64_t> one(static_cast<std::size_t>(ranks), 1);
    const at::Tensor fromExpert = group.allToAllRows(toExpert, one, one);
    const at::Tensor send = toExpert.sum(1), receive = fromExpert.sum(1);
    const at::Tensor rows = edges::exchangeRows(states.index_select(0, at::floor_divide(order, chosen)),
                                                numbersOf(send), numbersOf(receive), group);
    const at::Tensor here = at::arange(experts, indices.options()).repeat({ranks});
    forward.slot(instruction.out[0]) = rows;
    forward.slot(instruction.out[1]) = here.repeat_interleave(fromExpert.flatten()).unsqueeze(-1);
    forward.slot(instruction.out[2]) = at::ones({rows.size(0), 1}, rows.options());
    forward.slot(instruction.out[3]) = edges::splitRows(forward.input(instruction, 2), group);
    forward.slot(instruction.out[4]) = order;
    forward.slot(instruction.out[5]) = at::stack({send, receive});
}

void returnTokens(const Instruction &instruction, TrainingForward &forward) {
    ProcessGroup &group = *forward.model.group;
    const at::Tensor &scores = forward.input(instruction, 1);
    const at::Tensor &travelled = forward.input(instruction, 3);
    const at::Tensor back = edges::exchangeRows(forward.input(instruction, 0), numbersOf(travelled[1]),
                                                numbersOf(travelled[0]), group);
    const at::Tensor inOrder = at::zeros_like(back).index_copy(0, forward.input(instruction, 2), back);
    const at::Tensor outputs = inOrder.view({scores.size(0), scores.size(1), back.size(1)});
    forward.slot(instruction.out[0]) = edges::gatherRows((outputs * scores.unsqueeze(-1)).sum(1),
                                                         forward.input(instruction, 4).size(0), group);
}

} // namespace tpscope::expertexchange
