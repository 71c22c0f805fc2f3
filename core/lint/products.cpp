// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of the layout flow that use a module's own parameters: products, look-ups, norms.
#include "lint/flowrun.h"

#include <algorithm>
#include <utility>

namespace tpscope {

std::optional<FlowRun::Operand> FlowRun::operand(std::string_view name, const Frame &frame) {
    const FlowParameter *parameter = m_index.parameter(frame.self, name);
    if (!parameter || parameter->shape->empty())
        return std::nullopt;
    const Shape &shape = *parameter->shape;
    Operand out;
    out.parameter = parameter;
    out.distributed = parameter->distributed() && frame.own == OwnTensors::AsPlaced;
    out.columns = full(shape.back());
    if (shape.size() > 1)
        out.rows = full(shape[shape.size() - 2]);
    const Placement &placement = parameter->placement;
    const bool cuts = placement.kind == PlacementKind::Shard || placement.kind == PlacementKind::StridedShard;
    out.byExpert = cuts && m_tp > 1 && placement.dim == 0 && m_index.module(frame.self).attributes.contains("num_experts");
    out.onOneRank = frame.dispatched && !out.byExpert;
    if (cuts) {
        const std::int64_t extent = shape[static_cast<std::size_t>(placement.dim)];
        // DTensor brings a strided weight into the plain chunks that its input claims, or gives its output.
        const bool brought = frame.own == OwnTensors::Distributed && placement.kind == PlacementKind::StridedShard;
        const Layout cut = chunked(extent, brought ? 1 : parameter->groups);
        if (placement.dim + 1 == static_cast<int>(shape.size()))
            out.columns = cut;
        else if (placement.dim + 2 == static_cast<int>(shape.size()))
            out.rows = cut;
    }
    return out;
}

bool FlowRun::compatible(const Value &x, const Operand &operand, std::string_view label, const Frame &frame) {
    std::vector<FlowSide> sides = side(x, "input", frame.self);
    sides.push_back({frame.self, operand.columns, std::string(operand.parameter->name)});
    const std::string_view parameter = operand.parameter->name;
    if (frame.own == OwnTensors::Distributed) {
        if (operand.parameter->distributed())
            return true;
        // Without gradients a wrapped Linear computes with plain weights; with gradients it computes with DTensors.
        fails(needsGradients() ? FlowCause::WholeTraining : FlowCause::MixedTensors, frame.self, label,
              std::move(sides), parameter);
        return false;
    }
    if (operand.distributed == (x.form != Form::Local))
        return true;
    fails(FlowCause::MixedTensors, frame.self, label, std::move(sides), parameter);
    return false;
}

// --- linear ---------------------------------------------------------------------------------------------------------

Value FlowRun::linear(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    auto weight = operand(operation.parameters.front(), frame);
    if (x.unknown || !x.layout.tracked() || !weight)
        return x;
    if (operation.attributes.contains("transposed"))
        std::swap(weight->rows, weight->columns);
    auto bias = operation.parameters.size() > 1 ? operand(operation.parameters[1], frame) : std::nullopt;
    // Where the style adds the bias afterwards the product runs without it; with DTensors both go into one call.
    const bool takesBias = bias && (!frame.hidesBias || frame.own == OwnTensors::Distributed);
    if (!compatible(x, *weight, label, frame) || (takesBias && !compatible(x, *bias, label, frame)))
        return behindError();
    if (frame.hidesBias)
        bias.reset();

    std::vector<FlowSide> sides = frame.beforeSplit ? std::vector{*frame.beforeSplit} : side(x, "input", frame.self);
    // A DTensor product is right whatever the weight's placement, if its input is what its placement claims.
    const bool claimed = x.form == Form::Replicated;
    const Layout columns = claimed ? full(weight->columns.extent()) : weight->columns;
    sides.push_back({frame.self, columns, "weight"});
    if (!x.layout.sameWidths(columns))
        return fails(FlowCause::InputWidth, frame.self, label, std::move(sides));
    // DTensor cuts what it takes to be whole like the weight's columns: a rank's own slice is all that counts.
    const bool slices = claimed && !weight->columns.isFull();
    const bool meet = slices ? x.layout.ownChunk() == weight->columns : x.layout == columns;
    Value y = x;
    y.headDim = 0;
    y.tailGradient = -1;
    y.origin = frame.self;
    y.layout = claimed ? full(weight->rows.extent()) : weight->rows;
    if (!meet)
        misfit(y, x, FlowCause::InputChannels, frame.self, label, std::move(sides));
    if (x.partial() && (bias || !columns.isFull()))
        spoilPartial(y, x, label, frame);
    if (!columns.isFull())
        y.contracted = columns;
    if (bias && !joinBias(y, *bias, claimed, label, frame))
        return behindError();
    if (bias && x.power != 0)
        spoilScaled(y, x, label, frame);
    y.requiresGradient = x.requiresGradient || trains(weight->parameter->id);
    y.gradient = newSlot();
    productGradient(x, y, *weight, bias ? &*bias : nullptr, frame);
    return y;
}

bool FlowRun::joinBias(Value &y, const Operand &bias, bool claimed, std::string_view label, const Frame &frame) {
    const Layout held = claimed ? y.layout : bias.columns;
    std::vector<FlowSide> sides = {{frame.self, y.layout, "output"}, {frame.self, held, "bias"}};
    if (!held.sameWidths(y.layout)) {
        fails(FlowCause::OperandWidth, frame.self, label, std::move(sides), bias.parameter->name);
        return false;
    }
    if (!(held == y.layout))
        spoil(y, FlowCause::OperandChannels, frame.self, label, sides, bias.parameter->name);
    if (y.partial())
        spoil(y, FlowCause::BiasRepeated, frame.self, label, sides, bias.parameter->name);
    return true;
}

void FlowRun::productGradient(const Value &x, const Value &y, const Operand &weight, const Operand *bias,
                              const Frame &frame) {
    if (!needsGradients())
        return;
    const bool claimed = x.form == Form::Replicated;
    const bool wholeWeight = weight.whole() && !claimed;
    const bool wholeBias = bias && bias->columns.isFull() && !claimed;
    const bool rowsCut = !weight.rows.isFull();
    const bool columnsCut = !weight.columns.isFull();
    m_tape.record([=, this, in = x.gradient, out = y.gradient, weightSlot = weight.parameter->id,
                   biasSlot = bias ? bias->parameter->id : -1, module = frame.self, weightOnOneRank = weight.onOneRank,
                   biasOnOneRank = bias && bias->onOneRank,
                   summed = frame.sumsInputGradient](GradientTape &tape) {
        const GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        tape.add(weightSlot, weightOnOneRank ? contribution(kind, -1) : wholeWeight ? kind : ownPart(kind));
        tape.add(biasSlot, biasOnOneRank ? contribution(kind, -1) : wholeBias ? kind : ownPart(kind));
        if (claimed || (columnsCut && !rowsCut))
            tape.add(in, ownPart(kind));
        else if (rowsCut) // each rank knows only what its own output channels send back
            tape.add(in, contribution(kind, summed ? -1 : suspect(FlowCause::LinearShare, module, "backward", {})));
        else
            tape.add(in, kind);
    });
}

// --- embedding ------------------------------------------------------------------------------------------------------

Value FlowRun::embedding(const Operation &operation, std::string_view label, const Value &ids, const Frame &frame) {
    const auto weight = operand(operation.parameters.front(), frame);
    if (ids.unknown || !weight)
        return ids;
    if (ids.power != 0)
        return fails(FlowCause::FractionalIds, frame.self, label, {});
    if (!compatible(ids, *weight, label, frame))
        return behindError();
    // A DTensor look-up masks the rows other ranks have and is summed by its placement; a plain one runs out of rows.
    const bool claimed = ids.form == Form::Replicated;
    if (!claimed && !weight->rows.isFull())
        return fails(FlowCause::VocabularyRows, frame.self, label, {{frame.self, weight->rows, "weight"}});
    Value y = ids;
    y.indices = false;
    y.origin = frame.self;
    y.layout = claimed ? full(weight->columns.extent()) : weight->columns;
    y.requiresGradient = trains(weight->parameter->id);
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([out = y.gradient, slot = weight->parameter->id,
                       whole = weight->whole() && !claimed](GradientTape &tape) {
            const GradientKind kind = tape.at(out);
            tape.add(slot, whole ? kind : ownPart(kind));
        });
    return y;
}

// --- norm -----------------------------------------------------------------------------------------------------------

Value FlowRun::norm(const Operation &operation, std::string_view label, const Value &x, const Frame &frame) {
    const auto named = [&](std::size_t i) {
        return i < operation.parameters.size() ? operand(operation.parameters[i], frame) : std::nullopt;
    };
    const auto weight = named(0), bias = named(1);
    if (x.unknown || !x.layout.tracked() || (!weight && !operation.parameters.empty()))
        return x;
    std::vector<FlowSide> sides = side(x, "input", frame.self);
    const bool claimed = x.form == Form::Replicated;
    for (const auto *own : {&weight, &bias}) {
        if (!*own)
            continue;
        if (!compatible(x, **own, label, frame))
            return behindError();
        const Layout columns = claimed ? full((*own)->columns.extent()) : (*own)->columns;
        sides.push_back({frame.self, columns, std::string((*own)->parameter->name)});
        for (int r = 0; r < m_tp; ++r)
            if (columns.width(r) != (x.headDim > 0 ? x.headDim : x.layout.width(r)))
                return fails(FlowCause::InputWidth, frame.self, label, std::move(sides));
    }
    Value y = x;
    if (x.layout.isFull() && x.headDim == 0)
        y.origin = frame.self;
    // A scale drops out of a norm, as far as its eps is small against what is normed.
    if (x.power != 0)
        report(FlowCause::ScaleHidden, frame.self, label, side(x, "input", frame.self));
    y.power = 0;
    y.pending = -1;
    if (x.partial())
        spoilPartial(y, x, label, frame);
    else if (claimed && weight && !weight->columns.isFull() && !x.layout.isSame())
        misfit(y, x, FlowCause::InputChannels, frame.self, label, std::move(sides)); // joins pieces of different ranks
    else if (x.headDim == 0 && !x.layout.isFull())
        misfit(y, x, FlowCause::WholeNorm, frame.self, label, std::move(sides));
    for (const auto *own : {&weight, &bias})
        y.requiresGradient = y.requiresGradient || (*own && trains((*own)->parameter->id));
    y.gradient = newSlot();
    normGradient(x, y, weight ? &*weight : nullptr, bias ? &*bias : nullptr);
    return y;
}

void FlowRun::normGradient(const Value &x, const Value &y, const Operand *weight, const Operand *bias) {
    if (!needsGradients())
        return;
    // Each rank's share comes from the channels it holds; only where all hold everything, each has the whole.
    const bool shares = !x.layout.isSame();
    const bool together = x.layout.isPartition();
    std::vector<std::pair<int, bool>> parameters; // slots, and whether they are cut
    for (const Operand *own : {weight, bias})
        if (own)
            parameters.emplace_back(own->parameter->id, !own->columns.isFull());
    m_tape.record([=, in = x.gradient, out = y.gradient](GradientTape &tape) {
        const GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        GradientKind own = shares ? contribution(kind, -1) : kind;
        if (shares && !together && own.state == GradientKind::State::Partial)
            own = GradientKind::wrongBecause(own.cause);
        for (const auto &[slot, cut] : parameters)
            tape.add(slot, cut ? ownPart(own) : own);
        tape.add(in, kind);
    });
}

} // namespace tpscope
