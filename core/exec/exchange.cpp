// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/exchange.h"

#include <ATen/ATen.h>

namespace tpscope::exchange {

at::Tensor ofFirst(const at::Tensor &mine, at::IntArrayRef shape, at::ScalarType type, ProcessGroup *group) {
    const bool first = !group || group->rank() == 0;
    at::Tensor out = first ? mine.to(type).clone(at::MemoryFormat::Contiguous) : at::zeros(shape, at::dtype(type));
    if (group && out.numel() > 0)
        group->allReduce(out); // the others add nothing
    return out;
}

at::Tensor ofFirst(const at::Tensor &mine, at::ScalarType type, ProcessGroup *group) {
    if (!group)
        return mine.to(type).contiguous();
    at::Tensor header = at::zeros({8}, at::kLong);
    auto *numbers = header.data_ptr<std::int64_t>();
    if (group->rank() == 0) {
        numbers[0] = mine.dim();
        std::copy(mine.sizes().begin(), mine.sizes().end(), numbers + 1);
    }
    group->allReduce(header);
    return ofFirst(mine, at::IntArrayRef(numbers + 1, static_cast<std::size_t>(numbers[0])), type, group);
}

std::vector<std::vector<double>> ofAll(const std::vector<double> &mine, ProcessGroup *group) {
    if (!group)
        return {mine};
    const auto width = static_cast<std::int64_t>(mine.size());
    at::Tensor table = at::zeros({group->size(), width}, at::kDouble);
    double *numbers = table.data_ptr<double>();
    std::ranges::copy(mine, numbers + group->rank() * width);
    group->allReduce(table);
    std::vector<std::vector<double>> out;
    for (int rank = 0; rank < group->size(); ++rank)
        out.emplace_back(numbers + rank * width, numbers + (rank + 1) * width);
    return out;
}

at::Tensor sum(const at::Tensor &mine, ProcessGroup *group) {
    at::Tensor out = mine.clone(at::MemoryFormat::Contiguous);
    if (group && out.numel() > 0)
        group->allReduce(out);
    return out;
}

} // namespace tpscope::exchange
