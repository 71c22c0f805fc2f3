// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of the layout flow that hold no parameters: what each kind of operation does to layouts, forward and backward.
#include "lint/flowrun.h"

#include <algorithm>

namespace tpscope {
namespace {

// Stands for a value nobody follows: masks, tables, caches.
Value untracked() { return {}; }

Values passed(const Operation &operation, const Values &in) {
    Values out(operation.out.size());
    for (std::size_t i = 0; i < out.size() && i < in.size(); ++i)
        out[i] = in[i];
    return out;
}

// Gives another look at the same tensor.
bool isView(OpKind kind) {
    constexpr OpKind views[] = {OpKind::ViewHeads,    OpKind::SingleHead,    OpKind::DropHead,    OpKind::Transpose,
                                OpKind::MergeHeads,   OpKind::FlattenTokens, OpKind::BatchTokens, OpKind::Slice,
                                OpKind::SliceTokens};
    return std::ranges::find(views, kind) != std::end(views);
}

} // namespace

Values FlowRun::operate(const Operation &operation, std::string_view label, const Values &in, const Frame &frame) {
    const std::string_view shown = label.empty() ? name(operation.kind) : label;
    if (operation.attributes.contains("in_place") && !in.empty() && in.front().madeLocal)
        return Values(operation.out.size(), fails(FlowCause::InPlace, frame.self, shown, side(in.front(), "output", frame.self)));
    Values out = computed(operation, shown, in, frame);
    for (Value &value : out) {
        value.madeLocal = value.madeLocal && isView(operation.kind);
        value.flat = operation.kind == OpKind::FlattenTokens || (value.flat && operation.kind != OpKind::BatchTokens);
    }
    return out;
}

Values FlowRun::computed(const Operation &operation, std::string_view shown, const Values &in, const Frame &frame) {
    const auto first = [&] { return in.empty() ? Value{} : in.front(); };
    const auto second = [&] { return in.size() < 2 ? Value{} : in[1]; };
    switch (operation.kind) {
    case OpKind::Embedding: return {embedding(operation, shown, first(), frame)};
    case OpKind::Linear: return {linear(operation, shown, first(), frame)};
    case OpKind::RmsNorm:
    case OpKind::LayerNorm:
    case OpKind::UnitNorm: return {norm(operation, shown, first(), frame)};
    case OpKind::Clamp:
    case OpKind::Softcap:
    case OpKind::Activation: return {elementwise(shown, first(), frame)};
    case OpKind::Multiply:
    case OpKind::Add: return {combine(operation.kind, shown, first(), second(), frame)};
    case OpKind::ViewHeads: return {viewHeads(operation, shown, first(), frame)};
    case OpKind::CatHeads: return {catHeads(shown, first(), second(), frame)};
    case OpKind::SingleHead: {
        Value head = first();
        head.headDim = head.layout.tracked() ? head.layout.extent() : 0;
        return {head};
    }
    case OpKind::CappedAttend:
    case OpKind::Attend: return {attend(operation, shown, in, frame)};
    case OpKind::DropHead:
    case OpKind::MergeHeads: {
        Value merged = first();
        merged.headDim = 0;
        return {merged};
    }
    // A table of angles reads its first input's type and device only; the masks read sizes only.
    case OpKind::RopeTable: return Values(operation.out.size(), untracked());
    case OpKind::CausalMask: {
        Value mask = untracked();
        const auto type = operation.attributes.find("layer_type");
        if (type != operation.attributes.end())
            if (const auto *text = std::get_if<std::string>(&type->second))
                mask.slidingMask = text->starts_with("sliding") || text->starts_with("chunked");
        return {mask};
    }
    case OpKind::Select: return select(operation, in, frame);
    case OpKind::GroupRouter:
    case OpKind::Router: return route(operation, shown, first(), frame);
    case OpKind::ExpertProduct: return {expertProduct(operation, shown, first(), frame)};
    case OpKind::InterleavedGlu: return {interleavedGlu(shown, first(), frame)};
    case OpKind::CombineExperts: return {combineExperts(shown, first(), second(), frame)};
    case OpKind::Slice: return {slicePositions(operation, shown, first(), frame)};
    case OpKind::Concat: return {concat(shown, in, frame)};
    case OpKind::Convolve: return {convolve(operation, shown, first(), frame)};
    case OpKind::DeltaRule: return {deltaRule(operation, shown, in, frame)};
    case OpKind::SpreadTokens: return {spreadTokens(shown, first(), second(), frame)};
    // Rotation is linear, as a scale is, and acts within a head; slicing tokens and the cache keep channels as they are.
    case OpKind::Transpose:
    case OpKind::Rope:
    case OpKind::CacheUpdate:
    case OpKind::Scale:
    case OpKind::PositionScale:
    case OpKind::SumExperts:
    case OpKind::FlattenTokens:
    case OpKind::BatchTokens:
    case OpKind::SliceTokens: return passed(operation, in);
    }
    return passed(operation, in);
}

Value FlowRun::elementwise(std::string_view label, const Value &x, const Frame &frame) {
    if (x.unknown || !x.layout.tracked())
        return x;
    Value y = x;
    if (x.partial())
        spoilPartial(y, x, label, frame);
    if (x.power != 0)
        spoilScaled(y, x, label, frame);
    return y;
}

Value FlowRun::combine(OpKind kind, std::string_view label, const Value &a, const Value &b, const Frame &frame) {
    // Behind an error the other operand says what would follow if it were mended.
    if (a.unknown || b.unknown) {
        if (kind == OpKind::Add)
            return a.unknown ? b : a;
        return a.unknown ? a : b;
    }
    if (!a.layout.tracked() || !b.layout.tracked())
        return a.layout.tracked() ? a : b;
    std::vector<FlowSide> sides = side(a, "operand", frame.self);
    for (FlowSide &s : side(b, "operand", frame.self))
        sides.push_back(std::move(s));
    if (a.form != b.form)
        return fails(FlowCause::MixedTensors, frame.self, label, std::move(sides));

    Value y = a.layout.isFull() ? a : b;
    y.wrong = a.wrong || b.wrong;
    y.requiresGradient = a.requiresGradient || b.requiresGradient;
    const bool broadcasts = (a.layout.extent() == 1) != (b.layout.extent() == 1);
    if (broadcasts) {
        y.layout = a.layout.extent() == 1 ? b.layout : a.layout;
        y.brokenBy = a.layout.extent() == 1 ? b.brokenBy : a.brokenBy;
    } else if (!(a.layout == b.layout)) {
        std::vector<Channels> common;
        for (int r = 0; r < m_tp; ++r) {
            if (a.layout.width(r) != b.layout.width(r) && a.layout.width(r) != 1 && b.layout.width(r) != 1)
                return fails(FlowCause::OperandWidth, frame.self, label, std::move(sides));
            common.push_back(commonChannels(a.layout.at(r), b.layout.at(r)));
        }
        y.layout = Layout::of(a.layout.extent(), std::move(common));
        y.brokenBy = a.brokenBy >= 0   ? a.brokenBy
                     : b.brokenBy >= 0 ? b.brokenBy
                                       : suspect(FlowCause::OperandChannels, frame.self, label, sides);
    }
    const bool product = kind == OpKind::Multiply;
    y.contracted = a.partial() ? a.contracted : b.contracted;
    // A sum of two sums over the ranks is one; so is a product of one with something whole.
    if (product ? a.partial() && b.partial() : a.partial() != b.partial())
        spoilPartial(y, a.partial() ? a : b, label, frame);
    y.power = product ? a.power + b.power : a.power;
    y.pending = a.pending >= 0 ? a.pending : b.pending;
    if (!product && a.power != b.power)
        spoilScaled(y, a.power != 0 ? a : b, label, frame);

    if (needsGradients()) {
        y.gradient = newSlot();
        m_tape.record([out = y.gradient, left = a.gradient, right = b.gradient,
                       cause = broadcasts || a.layout == b.layout ? -1 : y.brokenBy,
                       leftShares = product && broadcasts && a.layout.extent() == 1 && !b.layout.isSame(),
                       rightShares = product && broadcasts && b.layout.extent() == 1 && !a.layout.isSame()](
                          GradientTape &tape) {
            GradientKind kindOfOut = tape.at(out);
            if (kindOfOut.none())
                return;
            if (cause >= 0)
                kindOfOut = GradientKind::wrongBecause(cause);
            // What is broadcast gets a sum over the channels this rank holds.
            tape.add(left, leftShares ? contribution(kindOfOut, -1) : kindOfOut);
            tape.add(right, rightShares ? contribution(kindOfOut, -1) : kindOfOut);
        });
    }
    return y;
}

// Channels [begin, end) of all become [0, end - begin). What a rank finds at these positions of its own part may lie
// elsewhere: then it is not what one rank alone would have sliced.
Value FlowRun::slicePositions(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    if (x.unknown || !x.layout.tracked())
        return x;
    if (x.headDim > 0)
        return sliceHeads(operation, label, x, frame);
    const std::int64_t takes = integerOf(operation, "whole", 0);
    for (int r = 0; r < m_tp && takes > 0; ++r)
        if (x.layout.width(r) != takes)
            return fails(FlowCause::OperandWidth, frame.self, label, side(x, "split", frame.self));
    const auto [begin, end] = slicedPositions(operation, x.layout.extent());
    bool elsewhere = false;
    std::vector<Channels> byRank;
    for (int r = 0; r < m_tp; ++r) {
        const auto [first, last] = slicedPositions(operation, x.layout.width(r));
        Channels channels;
        std::int64_t position = 0;
        for (const Interval &interval : slice(x.layout.at(r), first, last)) {
            const Interval inside{std::clamp(interval.begin, begin, end), std::clamp(interval.end, begin, end)};
            const bool whole = inside.size() == interval.size();
            elsewhere = elsewhere || (!whole && interval.begin >= 0);
            append(channels, whole ? Interval{inside.begin - begin, inside.end - begin}
                                   : broken(position, position + interval.size()));
            position += interval.size();
        }
        byRank.push_back(std::move(channels));
    }
    Value y = x;
    y.layout = Layout::of(end - begin, std::move(byRank));
    if (elsewhere && y.brokenBy < 0)
        y.brokenBy = suspect(FlowCause::SlicedApart, frame.self, label, side(x, "sliced", frame.self));
    if (needsGradients()) {
        y.gradient = newSlot();
        const bool tail = x.tailGradient >= 0 && begin >= x.tailBegin;
        y.tailGradient = -1;
        m_tape.record([in = tail ? x.tailGradient : x.gradient, out = y.gradient,
                       cause = elsewhere ? y.brokenBy : -1](GradientTape &tape) {
            GradientKind kind = tape.at(out);
            if (cause >= 0 && !kind.none())
                kind = GradientKind::wrongBecause(cause);
            tape.add(in, kind);
        });
    }
    return y;
}

// Heads of another width: those a rank holds whole stay where they are.
Layout FlowRun::resizedHeads(const Layout &layout, std::int64_t from, std::int64_t to) {
    std::vector<Channels> byRank;
    for (int r = 0; r < m_tp; ++r) {
        Channels channels;
        for (std::int64_t i = 0; i < layout.width(r) / from; ++i) {
            const Channels head = slice(layout.at(r), i * from, (i + 1) * from);
            const bool whole = head.size() == 1 && head.front().begin >= 0 && head.front().begin % from == 0;
            const std::int64_t id = head.front().begin / from;
            append(channels, whole ? Interval{id * to, (id + 1) * to} : broken(i * to, (i + 1) * to));
        }
        byRank.push_back(std::move(channels));
    }
    return Layout::of(layout.extent() / from * to, std::move(byRank));
}

Value FlowRun::sliceHeads(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    const auto [begin, end] = slicedPositions(operation, x.headDim);
    if (end <= begin)
        return fails(FlowCause::HeadsCut, frame.self, label, side(x, "heads", frame.self));
    Value y = x;
    y.headDim = end - begin;
    y.layout = resizedHeads(x.layout, x.headDim, y.headDim);
    if (needsGradients()) {
        y.gradient = newSlot();
        m_tape.record([in = x.gradient, out = y.gradient](GradientTape &tape) { tape.add(in, tape.at(out)); });
    }
    return y;
}

// b stands behind a in each head; a single head of b behind every head of a.
Value FlowRun::catHeads(std::string_view label, const Value &a, const Value &b, const Frame &frame) {
    if (a.unknown || b.unknown || !a.layout.tracked() || !b.layout.tracked())
        return a.unknown ? a : b;
    const std::int64_t wide = a.headDim + b.headDim;
    const bool single = b.layout.extent() == b.headDim && a.layout.extent() != a.headDim;
    Value y = a;
    y.headDim = wide;
    y.layout = resizedHeads(a.layout, a.headDim, wide);
    y.wrong = a.wrong || b.wrong;
    y.requiresGradient = a.requiresGradient || b.requiresGradient;
    if (a.partial() || b.partial())
        spoilPartial(y, a.partial() ? a : b, label, frame);
    if (!single && !(resizedHeads(b.layout, b.headDim, wide) == y.layout))
        return fails(FlowCause::HeadCounts, frame.self, label, side(b, "heads", frame.self));
    if (needsGradients()) {
        y.gradient = newSlot();
        const bool shares = single && !a.layout.isSame();
        m_tape.record([out = y.gradient, left = a.gradient, right = b.gradient, shares](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            if (kind.none())
                return;
            tape.add(left, kind);
            tape.add(right, shares ? contribution(kind, -1) : kind);
        });
    }
    return y;
}

Value FlowRun::viewHeads(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    if (x.unknown || !x.layout.tracked())
        return x;
    Value y = x;
    y.headDim = integerOf(operation, "head_dim", m_index.module(frame.self).integer("head_dim"));
    // view(..., -1, head_dim): a rest is an error, and so is nothing at all (-1 could be anything).
    const std::int64_t heads = integerOf(operation, "heads", 0);
    for (int r = 0; r < m_tp; ++r)
        if (y.headDim < 1 || x.layout.width(r) % y.headDim != 0 || x.layout.width(r) == 0 ||
            (heads > 0 && x.layout.width(r) != heads * y.headDim))
            return fails(FlowCause::HeadsCut, frame.self, label, side(x, "heads", frame.self));
    return y;
}

Values FlowRun::select(const Operation &operation, const Values &in, const Frame &frame) {
    const auto by = operation.attributes.find("by");
    const std::string *key = by == operation.attributes.end() ? nullptr : std::get_if<std::string>(&by->second);
    const std::string wanted = key ? m_index.module(frame.element).text(*key) : std::string();
    for (std::size_t i = 0; i < in.size(); ++i) {
        const auto choice = operation.attributes.find("choice" + std::to_string(i));
        const auto *text = choice == operation.attributes.end() ? nullptr : std::get_if<std::string>(&choice->second);
        if (text && *text == wanted)
            return {in[i]};
    }
    return {in.empty() ? Value{} : in.front()};
}

} // namespace tpscope
