// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/staticcache.h"

#include <algorithm>

namespace tpscope {

StaticCache::StaticCache(const ModelDescription &model, std::int64_t capacity, std::int64_t filled)
    : m_capacity(capacity), m_length(filled) {
    for (const Module &module : model.tree.modules) {
        const std::int64_t layer = module.integer("layer_idx", -1);
        if (layer < 0 || !module.attributes.contains("sliding_window"))
            continue;
        const auto index = static_cast<std::size_t>(layer);
        if (m_windows.size() <= index) {
            m_windows.resize(index + 1, 0);
            m_layerTypes.resize(index + 1);
        }
        m_windows[index] = module.integer("sliding_window");
        m_layerTypes[index] = module.text("layer_type");
    }
}

bool StaticCache::slides(std::size_t layer) const {
    return layer < m_windows.size() && m_windows[layer] > 0;
}

std::int64_t StaticCache::positions(std::size_t layer, std::int64_t tokens) const {
    if (!slides(layer))
        return m_capacity;
    const std::int64_t window = std::min(m_windows[layer], m_capacity);
    if (m_length >= window)
        return window + tokens - 1;
    return m_length + tokens > window ? m_length + tokens : window;
}

std::size_t StaticCache::layerOfMask(const std::string &layerType) const {
    const bool wantsSliding = layerType != "full_attention";
    for (std::size_t layer = 0; layer < m_windows.size(); ++layer)
        if (slides(layer) == wantsSliding && (!wantsSliding || m_layerTypes[layer] == layerType))
            return layer;
    for (std::size_t layer = 0; layer < m_windows.size(); ++layer)
        if (slides(layer) == wantsSliding)
            return layer;
    return 0;
}

int StaticCache::comparisons(std::size_t layer, std::int64_t length, std::int64_t tokens) const {
    const std::int64_t window = slides(layer) ? std::min(m_windows[layer], m_capacity) : m_capacity;
    return (length >= window ? 2 : 0) + (length + tokens > window ? 1 : 0);
}

} // namespace tpscope
