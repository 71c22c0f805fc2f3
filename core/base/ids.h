// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <compare>
#include <cstddef>

namespace tpscope {

// A number that cannot be mixed up with another kind of number.
template <typename Tag, typename Int = int> struct StrongId {
    Int value = 0;
    constexpr StrongId() = default;
    constexpr explicit StrongId(Int v) : value(v) {}
    auto operator<=>(const StrongId &) const = default;
};

using Rank = StrongId<struct RankTag>;                          // position in the tensor-parallel group, from 0
using LayerIndex = StrongId<struct LayerTag>;                   // decoder layer, from 0
using ModuleIndex = StrongId<struct ModuleTag, std::size_t>;    // into ModuleTree::modules

} // namespace tpscope
