// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/gradientedges.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "shard/shardlayout.h"

namespace tpscope::edges {
namespace {

using Backward = std::function<at::Tensor(const at::Tensor &)>;

struct BackwardHolder : torch::CustomClassHolder {
    explicit BackwardHolder(Backward given) : backward(std::move(given)) {}
    Backward backward;
};

struct Edge : torch::autograd::Function<Edge> {
    static at::Tensor forward(torch::autograd::AutogradContext *context, const at::Tensor & /*x*/,
                              const at::Tensor &value, const Backward &backward) {
        context->saved_data["backward"] = c10::IValue::make_capsule(c10::make_intrusive<BackwardHolder>(backward));
        // A tensor of its own: autograd hangs this edge on it.
        return value.alias();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                   const torch::autograd::variable_list &gradients) {
        const auto holder =
            c10::static_intrusive_pointer_cast<BackwardHolder>(context->saved_data["backward"].toCapsule());
        return {holder->backward(gradients[0]), at::Tensor(), at::Tensor()};
    }
};

Interval ownChunk(std::int64_t width, const ProcessGroup &group) {
    return chunkOf(width, group.size(), Rank(group.rank()));
}

at::Tensor gathered(const at::Tensor &local, std::int64_t width, ProcessGroup &group) {
    std::vector<std::int64_t> shape = local.sizes().vec();
    shape.back() = width;
    at::Tensor full = at::empty(shape, local.options());
    group.allGatherLast(local.contiguous(), full);
    return full;
}

at::Tensor summed(const at::Tensor &x, ProcessGroup &group) {
    at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    group.allReduce(sum);
    return sum;
}

} // namespace

at::Tensor withBackward(const at::Tensor &x, const at::Tensor &value, Backward backward) {
    return Edge::apply(x, value.detach(), backward);
}

at::Tensor sumInputGradient(const at::Tensor &x, ProcessGroup *group) {
    if (!group)
        return x;
    return withBackward(x, x, [group](const at::Tensor &gradient) { return summed(gradient, *group); });
}

at::Tensor sumColumnGradient(const at::Tensor &x, std::int64_t columns, ProcessGroup *group) {
    if (!group)
        return x;
    return withBackward(x, x, [group, columns](const at::Tensor &gradient) {
        at::Tensor out = gradient.clone(at::MemoryFormat::Contiguous);
        const at::Tensor tail = out.narrow(-1, out.size(-1) - columns, columns);
        tail.copy_(summed(tail, *group));
        return out;
    });
}

at::Tensor splitInput(const at::Tensor &x, ProcessGroup *group) {
    if (!group)
        return x;
    const std::int64_t width = x.size(-1);
    const Interval own = ownChunk(width, *group);
    return withBackward(x, x.detach().narrow(-1, own.begin, own.size()),
                        [group, width](const at::Tensor &gradient) { return gathered(gradient, width, *group); });
}

at::Tensor splitRows(const at::Tensor &x, ProcessGroup &group) { return splitInput(x.t(), &group).t(); }

at::Tensor gatherRows(const at::Tensor &x, std::int64_t rows, ProcessGroup &group) {
    return allGather(x.t(), rows, &group).t();
}

at::Tensor exchangeRows(const at::Tensor &x, const std::vector<std::int64_t> &send,
                        const std::vector<std::int64_t> &receive, ProcessGroup &group) {
    return withBackward(x, group.allToAllRows(x.detach().contiguous(), send, receive),
                        [&group, send, receive](const at::Tensor &gradient) {
                            return group.allToAllRows(gradient.contiguous(), receive, send);
                        });
}

at::Tensor divideInput(const at::Tensor &x, ProcessGroup *group) { return group ? x / group->size() : x; }

at::Tensor allReduce(const at::Tensor &x, ProcessGroup *group) {
    if (!group)
        return x;
    return withBackward(x, summed(x.detach(), *group), [](const at::Tensor &gradient) { return gradient; });
}

at::Tensor allGather(const at::Tensor &x, std::int64_t width, ProcessGroup *group) {
    if (!group)
        return x;
    const Interval own = ownChunk(width, *group);
    return withBackward(x, gathered(x.detach(), width, *group), [own](const at::Tensor &gradient) {
        return gradient.narrow(-1, own.begin, own.size());
    });
}

} // namespace tpscope::edges
