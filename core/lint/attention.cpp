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

// What one rank's attention gives, and how it uses the key and value heads it holds.
struct LocalHeads {
    Channels output;
    bool right = true;       // each query head met its own key and value head
    bool wholeKeys = true;   // all query heads of each key head are here
    bool wholeValues = true;
};

// Widths of a head.
struct HeadDims {
    std::int64_t query, key, value;
};

LocalHeads meet(const Channels &queries, const Channels &keys, const Channels &values, const Pairing &pairing,
                std::int64_t groups, const HeadDims &dims) {
    LocalHeads local;
    const std::int64_t queryCount = width(queries) / dims.query, keyCount = width(keys) / dims.key,
                       valueCount = width(values) / dims.value;
    std::vector<std::int64_t> keyUses(static_cast<std::size_t>(keyCount), 0);
    std::vector<std::int64_t> valueUses(static_cast<std::size_t>(valueCount), 0);
    for (std::int64_t i = 0; i < pairing.heads; ++i) {
        const std::int64_t key = std::min(i / pairing.queriesPerKey, keyCount - 1);
        const std::int64_t value = std::min(i / pairing.queriesPerValue, valueCount - 1);
        const std::int64_t query = headAt(queries, std::min(i, queryCount - 1), dims.query);
        const bool right = query >= 0 && headAt(keys, key, dims.key) == query / groups &&
                           headAt(values, value, dims.value) == query / groups;
        append(local.output, right ? Interval{query * dims.value, (query + 1) * dims.value}
                                   : broken(i * dims.value, (i + 1) * dims.value));
        local.right = local.right && right;
        ++keyUses[static_cast<std::size_t>(key)];
        ++valueUses[static_cast<std::size_t>(value)];
    }
    const auto whole = [&](std::int64_t uses) { return uses == groups; };
    local.wholeKeys = local.right && std::ranges::all_of(keyUses, whole);
    local.wholeValues = local.right && std::ranges::all_of(valueUses, whole);
    return local;
}

// All ranks together.
struct HeadsMet {
    bool fails = false;
    bool right = true;
    bool wholeKeys = true;
    bool wholeValues = true;
    std::vector<Channels> output;
};

HeadsMet meetEverywhere(const Layout &q, const Layout &k, const Layout &v, bool byCounts, std::int64_t groups,
                        const HeadDims &dims) {
    HeadsMet met;
    const bool alike = q.isSame() && k.isSame() && v.isSame();
    for (int r = 0; r < q.ranks(); ++r) {
        if (alike && r > 0) {
            met.output.push_back(met.output.front());
            continue;
        }
        const std::int64_t nq = q.width(r) / dims.query, nk = k.width(r) / dims.key, nv = v.width(r) / dims.value;
        const Pairing pairing = byCounts ? pairByLocalCounts(nq, nk, nv) : pairByConfiguredGroups(nq, nk, nv, groups);
        if (!pairing.heads) {
            met.fails = true;
            return met;
        }
        LocalHeads local = meet(q.at(r), k.at(r), v.at(r), pairing, groups, dims);
        met.right = met.right && local.right;
        met.wholeKeys = met.wholeKeys && local.wholeKeys;
        met.wholeValues = met.wholeValues && local.wholeValues;
        met.output.push_back(std::move(local.output));
    }
    return met;
}

Use gradientUse(bool whole, bool right, const Layout &queries, const Layout &keys) {
    if (whole)
        return Use::Whole;
    // Every rank has every key head, and the query heads are dealt out: the ranks' shares add up.
    return right && keys.isFull() && queries.isPartition() ? Use::Share : Use::Neither;
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

// One sink a query head: as many as the rank's heads, and those of just these heads.
bool FlowRun::meetSinks(const Operation &operation, std::string_view label, const Value &q, Value &y,
                        std::int64_t valueDim, const Frame &frame) {
    const auto sinks = operation.parameters.empty() ? std::nullopt : operand(operation.parameters.front(), frame);
    if (!sinks)
        return true;
    if (!compatible(q, *sinks, label, frame))
        return false;
    std::vector<FlowSide> sides = side(q, "query heads", frame.self);
    sides.push_back({frame.self, sinks->columns, std::string(sinks->parameter->name)});
    bool right = true;
    for (int r = 0; r < m_tp; ++r) {
        // They join the scores, of which a single query head has as many as it meets key heads.
        const std::int64_t heads = y.layout.width(r) / valueDim;
        if (sinks->columns.width(r) != heads) {
            fails(FlowCause::OperandWidth, frame.self, label, std::move(sides), sinks->parameter->name);
            return false;
        }
        for (std::int64_t head = 0; head < heads && right; ++head) {
            const Channels own = slice(sinks->columns.at(r), head, head + 1);
            right = !own.empty() && own.front().begin == headAt(y.layout.at(r), head, valueDim);
        }
    }
    if (!right)
        spoil(y, FlowCause::OperandChannels, frame.self, label, std::move(sides), sinks->parameter->name);
    if (needsGradients())
        m_tape.record([out = y.gradient, slot = sinks->parameter->id, cut = !sinks->columns.isFull(),
                       shares = !q.layout.isSame()](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            if (!kind.none())
                tape.add(slot, cut ? ownPart(kind) : shares ? contribution(kind, -1) : kind);
        });
    return true;
}

Value FlowRun::attend(const Operation &operation, std::string_view label, const Values &in, const Frame &frame) {
    if (in.size() < 3)
        return {};
    const Value &q = in[0], &k = in[1], &v = in[2];
    for (const Value *value : {&q, &k, &v})
        if (value->unknown || !value->layout.tracked())
            return *value;
    const Module &self = m_index.module(frame.self);
    const std::int64_t groups = std::max<std::int64_t>(1, self.integer("num_key_value_groups", 1));
    const std::int64_t window = self.integer("sliding_window");
    const bool slidingMask = in.size() > 3 && in[3].slidingMask && window > 0 && m_options.promptTokens >= window;
    const bool explicitMask = slidingMask || m_options.paddedPrompts;
    const bool byCounts = m_options.attention != "eager" && groups > 1 && !explicitMask;

    std::vector<FlowSide> sides;
    const std::pair<const Value *, const char *> roles[] = {{&q, "query heads"}, {&k, "key heads"}, {&v, "value heads"}};
    for (const auto &[value, role] : roles)
        for (FlowSide &s : side(*value, role, frame.self))
            sides.push_back(std::move(s));
    Value y = q;
    y.wrong = q.wrong || k.wrong || v.wrong;
    const auto dimOf = [&](const Value &value) {
        return std::max<std::int64_t>(1, value.headDim > 0 ? value.headDim : q.headDim);
    };
    const HeadDims dims{dimOf(q), dimOf(k), dimOf(v)};
    y.headDim = dims.query;
    const HeadsMet met = meetEverywhere(q.layout, k.layout, v.layout, byCounts, groups, dims);
    if (met.fails)
        return fails(FlowCause::HeadCounts, frame.self, label, std::move(sides));
    if (met.right && dims.value != dims.query)
        y.layout = Layout::of(q.layout.extent() / dims.query * dims.value, met.output);
    if (!met.right) {
        y.layout = Layout::of(q.layout.extent() / dims.query * dims.value, met.output);
        y.brokenBy = -1;
        for (const Value *value : {&q, &k, &v})
            y.brokenBy = std::max(y.brokenBy, value->brokenBy);
        if (y.brokenBy < 0)
            y.brokenBy = suspect(FlowCause::HeadsApart, frame.self, label, sides);
    }
    joinScales(y, q, k, v, label, frame);
    y.gradient = newSlot();
    if (!meetSinks(operation, label, q, y, dims.value, frame))
        return behindError();
    y.requiresGradient = q.requiresGradient || k.requiresGradient || v.requiresGradient;
    attentionGradient(y, in, {met.right, met.wholeKeys, met.wholeValues}, label, std::move(sides), frame.self);
    return y;
}

void FlowRun::attentionGradient(const Value &y, const Values &in, const std::array<bool, 3> &met,
                                std::string_view label, std::vector<FlowSide> sides, ModuleIndex module) {
    if (!needsGradients())
        return;
    const auto [right, wholeKeys, wholeValues] = met;
    const Use keys = gradientUse(wholeKeys, right, in[0].layout, in[1].layout);
    const Use values = gradientUse(wholeValues, right, in[0].layout, in[2].layout);
    const bool shared = keys != Use::Whole || values != Use::Whole;
    if (!shared)
        sides.clear(); // nothing will be told
    m_tape.record([=, this, out = y.gradient, q = in[0].gradient, k = in[1].gradient, v = in[2].gradient,
                   operation = std::string(label), isRight = right](GradientTape &tape) {
        const GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        const int cause = shared ? suspect(FlowCause::SharedHeads, module, operation, sides) : -1;
        tape.add(q, isRight ? kind : GradientKind::wrongBecause(cause));
        tape.add(k, gradientOf(keys, kind, cause));
        tape.add(v, gradientOf(values, kind, cause));
    });
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
