// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/frame.h"

#include <algorithm>

namespace tpscope {

Sizes::Sizes(std::initializer_list<std::int64_t> sizes) : rank(static_cast<int>(sizes.size())) {
    std::ranges::copy(sizes, at.begin());
}

Sizes::Sizes(const Shape &shape) : rank(std::min(static_cast<int>(shape.size()), maxRank)) {
    std::copy_n(shape.begin(), rank, at.begin());
}

void Sizes::setLast(std::int64_t size) {
    if (rank > 0)
        at[static_cast<std::size_t>(rank - 1)] = size;
}

TracedValue TracedValue::tensor(Sizes sizes, bool integer) {
    TracedValue value;
    value.kind = Kind::Tensor;
    value.sizes = sizes;
    value.integer = integer;
    return value;
}

TracedValue TracedValue::of(Attribute plain) {
    TracedValue value;
    value.kind = Kind::Plain;
    value.plain = std::move(plain);
    return value;
}

TracedValue TracedValue::cache() {
    TracedValue value;
    value.kind = Kind::Cache;
    return value;
}

const TracedValue &Frame::get(std::string_view variable) const {
    static const TracedValue none;
    const auto found =
        std::ranges::find(locals, variable, &std::pair<std::string_view, TracedValue>::first);
    return found == locals.end() ? none : found->second;
}

void Frame::set(std::string_view variable, TracedValue value) {
    const auto found =
        std::ranges::find(locals, variable, &std::pair<std::string_view, TracedValue>::first);
    if (found == locals.end())
        locals.emplace_back(variable, std::move(value));
    else
        found->second = std::move(value);
}

std::vector<TracedValue> Frame::results() const {
    std::vector<TracedValue> values;
    for (const Var &output : callable->program->outputs)
        values.push_back(get(output));
    return values;
}

std::string joinPath(const std::string &base, const std::string &path) {
    if (base.empty() || path.empty())
        return base.empty() ? path : base;
    return base + "." + path;
}

} // namespace tpscope
