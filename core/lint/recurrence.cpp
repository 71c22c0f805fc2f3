// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of the layout flow for linear attention: channels joined, convolved over time, and a state carried from token
// to token. Source: transformers 5.24 models/qwen3_next/modeling_qwen3_next.py, Qwen3NextGatedDeltaNet.
#include "lint/flowrun.h"

#include <algorithm>
#include <span>

namespace tpscope {

Value FlowRun::concat(std::string_view label, const Values &in, const Frame &frame) {
    for (const Value &value : in)
        if (value.unknown || !value.layout.tracked())
            return value;
    if (in.empty())
        return {};
    Value y = in.front();
    std::int64_t extent = 0;
    std::vector<Channels> byRank(static_cast<std::size_t>(m_tp));
    std::vector<int> slots;
    for (const Value &value : in) {
        if (value.form != y.form)
            return fails(FlowCause::MixedTensors, frame.self, label, side(value, "operand", frame.self));
        for (int r = 0; r < m_tp; ++r)
            for (const Interval &interval : value.layout.at(r))
                append(byRank[static_cast<std::size_t>(r)],
                       interval.begin < 0 ? interval : Interval{interval.begin + extent, interval.end + extent});
        extent += value.layout.extent();
        slots.push_back(value.gradient);
        y.wrong = y.wrong || value.wrong;
        y.requiresGradient = y.requiresGradient || value.requiresGradient;
        y.brokenBy = std::max(y.brokenBy, value.brokenBy);
        if (value.partial())
            spoilPartial(y, value, label, frame);
        if (value.power != 0)
            spoilScaled(y, value, label, frame);
    }
    y.headDim = 0;
    y.layout = Layout::of(extent, std::move(byRank));
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([out = y.gradient, slots](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            for (const int slot : slots)
                tape.add(slot, kind);
        });
    return y;
}

// Each channel meets its own filter.
Value FlowRun::convolve(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    const auto weight = operation.parameters.empty() ? std::nullopt : operand(operation.parameters.front(), frame);
    if (x.unknown || !x.layout.tracked() || !weight)
        return x;
    if (!compatible(x, *weight, label, frame))
        return behindError();
    const std::int64_t channels = weight->parameter->shape->front();
    std::vector<FlowSide> sides = side(x, "input", frame.self);
    sides.push_back({frame.self, full(channels), "weight"});
    // As many groups as the input has channels: each of them meets several filters where it holds fewer.
    for (int r = 0; r < m_tp; ++r)
        if (x.layout.width(r) == 0 || channels % x.layout.width(r) != 0)
            return fails(FlowCause::InputWidth, frame.self, label, std::move(sides));
    Value y = elementwise(label, x, frame);
    if (!x.layout.isFull()) {
        y.layout = full(channels);
        misfit(y, x, FlowCause::InputChannels, frame.self, label, std::move(sides));
    }
    y.requiresGradient = x.requiresGradient || trains(weight->parameter->id);
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([in = x.gradient, out = y.gradient, slot = weight->parameter->id](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            tape.add(slot, kind);
            tape.add(in, kind);
        });
    return y;
}

// Heads of q and k are repeated to as many as v has; b and a hold one number a head of v. All channels come out of one
// projection, so a rank has them all or none that belong together.
Value FlowRun::deltaRule(const Operation &operation, std::string_view label, const Values &in, const Frame &frame) {
    constexpr std::size_t tensors = 5;
    if (in.size() < tensors)
        return {};
    for (const Value &value : std::span(in).first(tensors))
        if (value.unknown || !value.layout.tracked())
            return value;
    const Value &v = in[2];
    Value y = v;
    std::vector<int> slots;
    bool whole = true;
    for (std::size_t i = 0; i < tensors; ++i) {
        const Value &value = in[i];
        slots.push_back(value.gradient);
        y.wrong = y.wrong || value.wrong;
        y.requiresGradient = y.requiresGradient || value.requiresGradient;
        whole = whole && value.layout.isFull();
        if (value.partial())
            spoilPartial(y, value, label, frame);
        if (value.power != 0)
            spoilScaled(y, value, label, frame);
        for (int r = 0; r < m_tp && i > 2; ++r)
            if (v.headDim > 0 && value.layout.width(r) != v.layout.width(r) / v.headDim)
                return fails(FlowCause::HeadCounts, frame.self, label, side(value, "heads", frame.self));
    }
    for (const std::string &name : operation.parameters)
        if (const auto parameter = operand(name, frame)) {
            if (!compatible(v, *parameter, label, frame))
                return behindError();
            for (int r = 0; r < m_tp; ++r)
                if (parameter->columns.width(r) != in[4].layout.width(r))
                    return fails(FlowCause::OperandWidth, frame.self, label, side(in[4], "heads", frame.self), name);
            slots.push_back(parameter->parameter->id);
            y.requiresGradient = y.requiresGradient || trains(parameter->parameter->id);
        }
    if (!whole)
        spoil(y, FlowCause::HeadsApart, frame.self, label, side(v, "heads", frame.self));
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([out = y.gradient, slots](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            for (const int slot : slots)
                tape.add(slot, kind);
        });
    return y;
}

} // namespace tpscope
