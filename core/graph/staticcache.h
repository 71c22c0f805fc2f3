// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/modeldescription.h"

namespace tpscope {

// The lengths of a StaticCache, layer by layer. A layer whose attention module has a sliding_window
// > 0 keeps min(window, capacity) positions and counts its tokens in a Python int
// (cumulative_length_int), which frames guard on; the other layers count in a tensor, which nobody
// guards on. Source: transformers 5.21 to 5.24 cache_utils.py StaticLayer,
// StaticSlidingWindowLayer.
class StaticCache {
public:
    // capacity: positions of a full layer; filled: tokens already in it.
    StaticCache(const ModelDescription &model, std::int64_t capacity, std::int64_t filled);

    std::int64_t length() const { return m_length; } // cumulative_length_int of every layer
    void advance(std::int64_t tokens) { m_length += tokens; }

    bool slides(std::size_t layer) const;
    // Positions of the keys and values a layer returns when `tokens` are added (one token a step).
    std::int64_t positions(std::size_t layer, std::int64_t tokens) const;
    // The layer whose lengths a mask for this layer type is built from: the first that does not
    // slide for "full_attention", the first that slides for any other type, else layer 0. GuardSource:
    // masking_utils.py create_*_mask.
    std::size_t layerOfMask(const std::string &layerType) const;
    // How the comparisons of length with the window come out (is it full, will it be): code that
    // made its Python int dynamic is guarded on these. Equal numbers, equal outcomes.
    int comparisons(std::size_t layer, std::int64_t length, std::int64_t tokens) const;

private:
    std::int64_t m_capacity;
    std::int64_t m_length;
    std::vector<std::int64_t> m_windows;   // by layer, 0 full
    std::vector<std::string> m_layerTypes; // by layer
};

} // namespace tpscope
