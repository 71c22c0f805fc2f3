// SPDX-License-Identifier: GPL-3.0-or-later
// Attention in the layout flow: which local query head meets which local key/value head, and whether they belong
// together. Source: transformers 5.24 integrations/sdpa_attention.py, eager_attention_forward, masking_utils.py.
#include "lint/flowrun.h"

#include <algorithm>
#include <array>

namespace tpscope {
namespace {

// The global head a rank holds at a local position; -1: no whole head lies there.
std::int64_t headAt(const Channels &channels, std::int64_t position, std::int64_t headDim) {
    const Channels head = slice(channels, position * headDim, (position + 1) * headDim);
    const bool whole = head.size() == 1 && head.front().size() == headDim && head.front().begin % headDim == 0;
    return whole ? head.front().begin / headDim : -1;
}

// torch broadcasts a single head over the others; 0: cannot.
std::int64_t broadcast(std::int64_t a, std::int64_t b) { return a == b || b == 1 ? a : a == 1 ? b : 0; }

// How one rank pairs heads, by counts alone.
struct Pairing {
    std::int64_t heads = 0; // of the output; 0: an error
    std::int64_t queriesPerKey = 1;
    std::int64_t queriesPerValue = 1;
};

Pairing pairByLocalCounts(std::int64_t q, std::int64_t k, std::int64_t v) {
    if (q % k != 0 || q % v != 0)
        return {};
    return {q, q / k, q / v};
}

Pairing pairByConfiguredGroups(std::int64_t q, std::int64_t k, std::int64_t v, std::int64_t groups) {
    const std::int64_t scores = broadcast(q, k * groups);
    const std::int64_t heads = scores ? broadcast(scores, v * groups) : 0;
    if (!heads)
        return {};
    return {heads, k * groups == 1 ? heads : groups, v * groups == 1 ? heads : groups};
}

enum class Use { Whole, Share, Neither };

// Whether each rank's query heads use all of the key/value heads it holds, or only a share of them.
struct KeyUse {
    bool whole = true;
    bool rightHeads = true;
};

KeyUse useOf(const Channels &queries, const Channels &keys, std::int64_t perKey, std::int64_t groups,
             std::int64_t headDim) {
    KeyUse use;
    const std::int64_t count = width(queries) / headDim;
    std::vector<std::int64_t> used(static_cast<std::size_t>(width(keys) / headDim), 0);
    for (std::int64_t i = 0; i < count; ++i) {
        const auto local = static_cast<std::size_t>(std::min<std::int64_t>(
            i / perKey, static_cast<std::int64_t>(used.size()) - 1));
        const std::int64_t query = headAt(queries, i, headDim);
        const std::int64_t key = headAt(keys, static_cast<std::int64_t>(local), headDim);
        use.rightHeads = use.rightHeads && query >= 0 && key >= 0 && query / groups == key;
        ++used[local];
    }
    use.whole = std::ranges::all_of(used, [&](std::int64_t n) { return n == groups; });
    return use;
}

Use gradientUse(bool whole, const Layout &queries, const Layout &keys) {
    if (whole)
        return Use::Whole;
    // Every rank has every key head, and the query heads are dealt out: the ranks' shares add up.
    return keys.isFull() && queries.isPartition() ? Use::Share : Use::Neither;
}

GradientKind gradientOf(Use use, const GradientKind &kind, int cause) {
    switch (use) {
    case Use::Whole: return kind;
    case Use::Share: return contribution(kind, cause);
    case Use::Neither: break;
    }
    return GradientKind::wrongBecause(cause);
}

} // namespace

Value FlowRun::attend(std::string_view label, const Values &in, const Frame &frame) {
    if (in.size() < 3)
        return {};
    const Value &q = in[0], &k = in[1], &v = in[2];
    for (const Value *value : {&q, &k, &v})
        if (value->unknown || !value->layout.tracked())
            return *value;
    const Module &self = m_index.module(frame.self);
    const std::int64_t groups = std::max<std::int64_t>(1, self.integer("num_key_value_groups", 1));
    const std::int64_t window = self.integer("sliding_window");
    const bool explicitMask = in.size() > 3 && in[3].slidingMask && window > 0 && m_options.promptTokens >= window;
    const bool byCounts = m_options.attention != "eager" && groups > 1 && !explicitMask;

    std::vector<FlowSide> sides;
    const std::pair<const Value *, const char *> roles[] = {{&q, "query heads"}, {&k, "key heads"}, {&v, "value heads"}};
    for (const auto &[value, role] : roles)
        for (FlowSide &s : side(*value, role, frame.self))
            sides.push_back(std::move(s));

    Value y = q;
    y.headDim = std::max<std::int64_t>(1, q.headDim);
    y.wrong = q.wrong || k.wrong || v.wrong;
    bool wholeKeys = true, wholeValues = true, rightHeads = true;
    const bool alike = q.layout.isSame() && k.layout.isSame() && v.layout.isSame();
    for (int r = 0; r < (alike ? 1 : m_tp); ++r) {
        const std::int64_t nq = q.layout.width(r) / y.headDim;
        const std::int64_t nk = k.layout.width(r) / y.headDim;
        const std::int64_t nv = v.layout.width(r) / y.headDim;
        const Pairing pairing = byCounts ? pairByLocalCounts(nq, nk, nv) : pairByConfiguredGroups(nq, nk, nv, groups);
        if (!pairing.heads)
            return fails(FlowCause::HeadCounts, frame.self, label, std::move(sides));
        const KeyUse keys = useOf(q.layout.at(r), k.layout.at(r), pairing.queriesPerKey, groups, y.headDim);
        const KeyUse values = useOf(q.layout.at(r), v.layout.at(r), pairing.queriesPerValue, groups, y.headDim);
        wholeKeys = wholeKeys && keys.whole;
        wholeValues = wholeValues && values.whole;
        rightHeads = rightHeads && keys.rightHeads && values.rightHeads && pairing.heads == nq;
        if (pairing.heads > nq)
            y.layout = pairing.heads == nk * groups ? k.layout : v.layout;
    }
    if (!rightHeads)
        spoil(y, FlowCause::HeadsApart, frame.self, label, sides);
    joinScales(y, q, k, v, label, frame);
    y.requiresGradient = q.requiresGradient || k.requiresGradient || v.requiresGradient;
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([=, this, out = y.gradient, slots = std::array{q.gradient, k.gradient, v.gradient},
                       keyUse = gradientUse(wholeKeys, q.layout, k.layout),
                       valueUse = gradientUse(wholeValues, q.layout, v.layout), module = frame.self,
                       operation = std::string(label)](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            if (kind.none())
                return;
            const bool shared = keyUse != Use::Whole || valueUse != Use::Whole;
            const int cause = shared ? suspect(FlowCause::SharedHeads, module, operation, sides) : -1;
            tape.add(slots[0], kind);
            tape.add(slots[1], gradientOf(keyUse, kind, cause));
            tape.add(slots[2], gradientOf(valueUse, kind, cause));
        });
    return y;
}

void FlowRun::joinScales(Value &y, const Value &q, const Value &k, const Value &v, std::string_view label,
                         const Frame &frame) {
    for (const Value *value : {&q, &k, &v})
        if (value->partial()) {
            spoilPartial(y, *value, label, frame);
            break;
        }
    y.contracted = Layout();
    // Scores are a product of both; a scale of the values goes through.
    if (q.power + k.power != 0)
        spoilScaled(y, q.power != 0 ? q : k, label, frame);
    y.power = v.power;
    y.pending = v.pending;
}

} // namespace tpscope
