// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/guard.h"

namespace tpscope {
namespace {

bool mayBeDynamic(GuardSource::Kind kind) {
    return kind == GuardSource::Kind::Local || kind == GuardSource::Kind::CacheLength;
}

bool sizesFit(const Guard &guard, const Sizes &found) {
    const Sizes &expected = guard.expected.sizes;
    if (found.rank != expected.rank)
        return false;
    for (int d = 0; d < found.rank; ++d) {
        const std::int64_t size = found.at[static_cast<std::size_t>(d)];
        const bool fits = (guard.dynamicSizes >> d) & 1U
                              ? size >= 2
                              : size == expected.at[static_cast<std::size_t>(d)];
        if (!fits)
            return false;
    }
    return true;
}

} // namespace

std::string GuardSource::key() const {
    return std::to_string(static_cast<int>(kind)) + "|" + path + "|" + name + "|" +
           std::to_string(layer);
}

void AutomaticDynamic::observe(const GuardSource &source, const TracedValue &value) {
    if (!mayBeDynamic(source.kind))
        return;
    State &state = m_states[source.key()];
    if (value.kind == TracedValue::Kind::Tensor) {
        if (!state.sizes)
            state.sizes = value.sizes;
        else if (state.sizes->rank != value.sizes.rank)
            state.rankChanged = true;
        else
            for (int d = 0; d < value.sizes.rank; ++d)
                if (state.sizes->at[static_cast<std::size_t>(d)] !=
                    value.sizes.at[static_cast<std::size_t>(d)])
                    state.dynamic |= 1U << d;
    }
    if (const auto *number = std::get_if<std::int64_t>(&value.plain);
        value.kind == TracedValue::Kind::Plain && number != nullptr) {
        state.numberChanged |= state.number && *state.number != *number;
        state.number = *number;
    }
}

unsigned AutomaticDynamic::dynamicSizes(const GuardSource &source, const TracedValue &value) const {
    const auto found = m_states.find(source.key());
    if (found == m_states.end())
        return 0;
    unsigned dynamic = found->second.rankChanged ? ~0U : found->second.dynamic;
    for (int d = 0; d < Sizes::maxRank; ++d)
        if (d >= value.sizes.rank || value.sizes.at[static_cast<std::size_t>(d)] < 2)
            dynamic &= ~(1U << d);
    return dynamic;
}

bool AutomaticDynamic::dynamicInt(const GuardSource &source) const {
    const auto found = m_states.find(source.key());
    return found != m_states.end() && found->second.numberChanged;
}

FrameFacts::FrameFacts(const ModelDescription &model, const ShapeFlow &shapes,
                       const StaticCache *cache, std::int64_t tokens)
    : m_model(model), m_shapes(shapes), m_cache(cache), m_tokens(tokens) {}

std::optional<ModuleIndex> FrameFacts::moduleAt(const Frame &frame, const std::string &path) const {
    return m_model.tree.resolve(frame.self, path);
}

TracedValue FrameFacts::valueOf(const GuardSource &source, const Frame &frame) const {
    if (source.kind == GuardSource::Kind::Local)
        return frame.get(source.name);
    if (source.kind == GuardSource::Kind::CacheLength)
        return m_cache ? TracedValue::of(m_cache->length()) : TracedValue();
    const auto module = moduleAt(frame, source.path);
    if (!module)
        return {};
    if (source.kind == GuardSource::Kind::ModuleClass)
        return TracedValue::of(m_model.tree.at(*module).className);
    if (source.kind == GuardSource::Kind::Parameter)
        return TracedValue::tensor(m_shapes.parameter(*module, source.name));
    const auto &attributes = m_model.tree.at(*module).attributes;
    const auto found = attributes.find(source.name);
    return found == attributes.end() ? TracedValue() : TracedValue::of(found->second);
}

bool FrameFacts::passes(const Guard &guard, const Frame &frame) const {
    const TracedValue found = valueOf(guard.source, frame);
    if (found.kind != guard.expected.kind)
        return false;
    if (found.kind == TracedValue::Kind::Tensor)
        return found.integer == guard.expected.integer && sizesFit(guard, found.sizes);
    if (found.kind != TracedValue::Kind::Plain)
        return true;
    if (!guard.dynamicInt)
        return found.plain == guard.expected.plain;
    const auto *number = std::get_if<std::int64_t>(&found.plain);
    if (!number)
        return false;
    return guard.source.kind != GuardSource::Kind::CacheLength || !m_cache ||
           m_cache->comparisons(guard.source.layer, *number, m_tokens) == guard.comparisons;
}

Guard FrameFacts::guardOn(const Read &read, const AutomaticDynamic &dynamic,
                          const std::vector<std::pair<int, int>> &pinned) const {
    Guard guard{read.source, read.value, 0, false, 0};
    if (!mayBeDynamic(read.source.kind))
        return guard;
    guard.dynamicSizes =
        read.value.kind == TracedValue::Kind::Tensor ? dynamic.dynamicSizes(read.source, read.value) : 0;
    for (const auto &[local, dimension] : pinned)
        if (local == read.value.local)
            guard.dynamicSizes &= ~(1U << dimension);
    guard.dynamicInt = dynamic.dynamicInt(read.source);
    const auto *number = std::get_if<std::int64_t>(&read.value.plain);
    if (guard.dynamicInt && number && m_cache && read.source.kind == GuardSource::Kind::CacheLength)
        guard.comparisons = m_cache->comparisons(read.source.layer, *number, m_tokens);
    return guard;
}

} // namespace tpscope
