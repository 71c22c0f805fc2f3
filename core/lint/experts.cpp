// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of the layout flow for mixtures of experts. Source: transformers 5.24 integrations/moe.py (grouped_mm is the
// default implementation) and the families' routers.
#include "lint/flowrun.h"

#include <algorithm>

namespace tpscope {

// Scores are a softmax of products: the input must be whole. The choice of experts follows from it on every rank alike.
Values FlowRun::route(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    const auto weight = operand(operation.parameters.front(), frame);
    if (x.unknown || !x.layout.tracked() || !weight)
        return {x, Value{}};
    if (!compatible(x, *weight, label, frame))
        return {behindError(), Value{}};
    std::vector<FlowSide> sides = side(x, "input", frame.self);
    sides.push_back({frame.self, weight->columns, "weight"});
    if (!x.layout.sameWidths(weight->columns))
        return {fails(FlowCause::InputWidth, frame.self, label, std::move(sides)), Value{}};
    Value scores = x;
    scores.origin = frame.self;
    scores.layout = weight->rows;
    if (!(x.layout == weight->columns))
        misfit(scores, x, FlowCause::InputChannels, frame.self, label, std::move(sides));
    if (x.partial())
        spoilPartial(scores, x, label, frame);
    if (x.power != 0)
        spoilScaled(scores, x, label, frame);
    scores.requiresGradient = x.requiresGradient || trains(weight->parameter->id);
    scores.gradient = newSlot();
    const auto bias = operation.parameters.size() > 1 ? operand(operation.parameters[1], frame) : std::nullopt;
    if (bias && (!compatible(x, *bias, label, frame) || !joinBias(scores, *bias, false, label, frame)))
        return {behindError(), Value{}};
    if (!weight->rows.isFull() && !choosesAmongFew(operation, label, *weight, scores, frame))
        return {behindError(), Value{}};
    productGradient(x, scores, *weight, bias ? &*bias : nullptr, frame);
    return {scores, Value{}};
}

// Each rank scores its own experts alone, by their numbers on the rank: others than one rank alone would choose. Fails
// where there are fewer of them than are chosen, or than a buffer corrects.
bool FlowRun::choosesAmongFew(const Operation &operation, std::string_view label, const Operand &weight, Value &scores,
                              const Frame &frame) {
    const Module &self = m_index.module(frame.self);
    bool few = std::ranges::any_of(operation.parameters,
                                   [&](const std::string &name) { return self.buffer(name) != nullptr; });
    for (int r = 0; r < m_tp; ++r)
        few = few || weight.rows.width(r) < self.integer("top_k", 1);
    if (few) {
        fails(FlowCause::ExpertCount, frame.self, label, {}, weight.parameter->name);
        return false;
    }
    spoil(scores, FlowCause::ExpertCount, frame.self, label, {}, weight.parameter->name);
    scores.layout = full(weight.rows.extent());
    return true;
}

// A module whose num_experts counts the rank's own experts computes with weights of just as many. A bias is picked by the
// number of the expert on the rank; the number that stands for experts elsewhere is one too many for all of them.
bool FlowRun::meetsExperts(const Operation &operation, std::string_view label, Value &y, const Frame &frame) {
    const bool deals = m_tp > 1 && m_index.dealsExperts(frame.self);
    for (std::size_t i = 0; i < operation.parameters.size(); ++i) {
        const auto operand = this->operand(operation.parameters[i], frame);
        const bool allHere = i > 0 && m_tp > 1 && frame.dispatched && !deals;
        if (!operand || (operand->byExpert == deals && !allHere))
            continue;
        const std::string_view parameter = operand->parameter->name;
        if (i == 0 || !deals) {
            fails(FlowCause::ExpertCount, frame.self, label, {}, parameter);
            return false;
        }
        spoil(y, FlowCause::ExpertBiasWhole, frame.self, label, {}, parameter);
    }
    if (deals && !frame.dispatched)
        spoil(y, FlowCause::ExpertsCut, frame.self, label, {{frame.self, y.layout, "experts"}},
              operation.parameters.front());
    return true;
}

// A product like any other, of matrices that are stacked; and two things that only experts meet.
Value FlowRun::expertProduct(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    Value y = linear(operation, label, x, frame);
    const auto weight = operand(operation.parameters.front(), frame);
    if (!weight || y.unknown)
        return y;
    const auto bytes = static_cast<std::int64_t>(elementSize(m_index.model().dtype));
    const bool grouped = !operation.attributes.contains("batched");
    for (int r = 0; r < m_tp && grouped; ++r)
        if (weight->columns.width(r) * bytes % 16 != 0)
            return fails(FlowCause::Misaligned, frame.self, label, {{frame.self, weight->columns, "weight"}},
                         weight->parameter->name);
    return meetsExperts(operation, label, y, frame) ? y : behindError();
}

// Channels 2i and 2i + 1 give channel i.
Value FlowRun::interleavedGlu(std::string_view label, const Value &x, const Frame &frame) {
    if (x.unknown || !x.layout.tracked())
        return x;
    Value y = elementwise(label, x, frame);
    std::vector<Channels> byRank;
    bool apart = false;
    for (int r = 0; r < m_tp; ++r) {
        Channels channels;
        for (std::int64_t i = 0; 2 * i + 1 < x.layout.width(r); ++i) {
            const Channels pair = slice(x.layout.at(r), 2 * i, 2 * i + 2);
            const bool together = pair.size() == 1 && pair.front().begin >= 0 && pair.front().begin % 2 == 0;
            apart = apart || (!together && pair.front().begin >= 0);
            const std::int64_t channel = pair.front().begin / 2;
            append(channels, together ? Interval{channel, channel + 1} : broken(i, i + 1));
        }
        if (x.layout.width(r) % 2 != 0)
            return fails(FlowCause::OperandWidth, frame.self, label, side(x, "gate and up", frame.self));
        byRank.push_back(std::move(channels));
    }
    y.layout = Layout::of(x.layout.extent() / 2, std::move(byRank));
    if (apart && y.brokenBy < 0)
        y.brokenBy = suspect(FlowCause::SlicedApart, frame.self, label, side(x, "gate and up", frame.self));
    return y;
}

// Copies of the tokens for their experts, each times its score.
Value FlowRun::spreadTokens(std::string_view label, const Value &x, const Value &scores, const Frame &frame) {
    if (x.unknown || scores.unknown)
        return behindError();
    if (x.form != scores.form)
        return fails(FlowCause::MixedTensors, frame.self, label, side(x, "tokens", frame.self));
    Value y = x;
    y.wrong = x.wrong || scores.wrong;
    if (scores.power != 0)
        spoilScaled(y, scores, label, frame);
    y.requiresGradient = x.requiresGradient || scores.requiresGradient;
    if (!needsGradients())
        return y;
    y.gradient = newSlot();
    m_tape.record([out = y.gradient, in = x.gradient, weights = scores.gradient,
                   shares = !x.layout.isSame()](GradientTape &tape) {
        const GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        tape.add(in, kind);
        tape.add(weights, shares ? contribution(kind, -1) : kind);
    });
    return y;
}

// A sum weighted by the scores, which every rank has: what is partial stays so. The scores' gradient is a product with
// what this rank holds.
Value FlowRun::combineExperts(std::string_view label, const Value &x, const Value &scores, const Frame &frame) {
    if (x.unknown || scores.unknown)
        return behindError();
    if (x.form != scores.form) // a style made a DTensor of the hidden states alone
        return fails(FlowCause::MixedTensors, frame.self, label, side(x, "experts", frame.self));
    Value y = x;
    y.wrong = x.wrong || scores.wrong;
    if (scores.power != 0)
        spoilScaled(y, scores, label, frame);
    y.requiresGradient = x.requiresGradient || scores.requiresGradient;
    if (!needsGradients())
        return y;
    y.gradient = newSlot();
    const bool shares = x.partial() || !x.layout.isSame();
    m_tape.record([out = y.gradient, in = x.gradient, weights = scores.gradient, shares](GradientTape &tape) {
        const GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        tape.add(in, kind);
        tape.add(weights, shares ? contribution(kind, -1) : kind);
    });
    return y;
}

} // namespace tpscope
