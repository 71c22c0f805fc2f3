// SPDX-License-Identifier: GPL-3.0-or-later
// What a style does around a module's forward: one wrapper for every style, by the fields of its row. Source:
// transformers 5.24 distributed/tensor_parallel.py, transform_inputs_pre_forward, context_around_forward,
// transform_output_post_forward of each class.
#include "lint/flowrun.h"

namespace tpscope {

using Tensors = ParallelStyle::Tensors;
using State = GradientKind::State;

Values FlowRun::callModule(ModuleIndex module, Values arguments) {
    const int call = m_index.callProgram(module);
    if (call < 0)
        return enterForward(module, std::move(arguments));
    Frame frame;
    frame.self = frame.element = module;
    return runProgram(call, arguments, frame);
}

Values FlowRun::enterForward(ModuleIndex module, Values arguments) {
    const int forward = m_index.forwardProgram(module);
    if (forward < 0)
        return {};
    Frame frame;
    frame.self = frame.element = module;
    const ParallelStyle *style = m_index.style(module);
    const Values unknown(m_index.program(forward).outputs.size(), behindError());
    if (style && !takeInput(module, *style, arguments, frame))
        return unknown;
    if (style)
        countSums(module, *style, arguments);
    Values outputs = runProgram(forward, arguments, frame);
    if (style && !giveOutput(module, *style, frame, outputs))
        return unknown;
    return outputs;
}

// The sums a style makes of its own parameters' gradients: its hook's, or DTensor's of a replicated parameter.
void FlowRun::countSums(ModuleIndex module, const ParallelStyle &style, const Values &arguments) {
    bool sums = style.tokenShards;
    if (style.hooksParameters()) {
        // A module's backward hook runs before its parameters' gradients are there when its input needs none.
        const bool inputGradient = !arguments.empty() && arguments.front().requiresGradient;
        sums = m_options.sync == ParameterSync::Exact ||
               (m_options.sync == ParameterSync::BeforeInputGradient && inputGradient);
    }
    if (sums)
        for (const FlowParameter &parameter : m_index.parameters(module))
            ++m_sums[static_cast<std::size_t>(parameter.id)];
}

bool FlowRun::takeInput(ModuleIndex module, const ParallelStyle &style, Values &arguments, Frame &frame) {
    const Module &self = m_index.module(module);
    if (style.takesInput && self.calledWithKeywords) {
        fails(FlowCause::KeywordInput, module, "call", {});
        return false;
    }
    const Tensors tensors = style.tensors();
    if (tensors == Tensors::Local)
        frame.own = OwnTensors::Local;
    if (style.dispatchesTokens)
        return dispatch(module, arguments, frame);
    if (!style.takesInput || arguments.empty())
        return true;
    Value &input = arguments.front();
    if (tensors == Tensors::Distributed) {
        // The second dimension is cut, which are channels here: nothing to a function of each element alone.
        const bool elementwise = self.parameters.empty() && self.children.empty();
        if (style.tokenShards && input.flat && !elementwise) {
            fails(FlowCause::SequenceInput, module, "input", side(input, "input", module));
            return false;
        }
        if (style.tokenShards)
            input.form = Form::Sequence;
        else if (!gatherPieces(module, input))
            return false;
        else
            input.form = Form::Replicated;
        return true;
    }
    if (tensors != Tensors::AsPlaced) {
        if (!gatherPieces(module, input))
            return false;
        input.form = Form::Local;
    }
    if (tensors == Tensors::LocalInInference) {
        const bool plain = self.isLinear && !needsGradients();
        frame.own = plain ? OwnTensors::Local : OwnTensors::Distributed;
        frame.hidesBias = style.output == ParallelStyle::Output::Reduce;
    }
    frame.sumsInputGradient = style.sumsInputGradient;
    if (style.input == ParallelStyle::Input::Split) {
        if (std::vector<FlowSide> came = side(input, "input", module); !came.empty())
            frame.beforeSplit = std::move(came.front());
        input = splitInput(input);
    }
    if (style.input == ParallelStyle::Input::Divide && (input.layout.tracked() || input.indices)) {
        input.power -= 1;
        input.pending = suspect(FlowCause::DividedWhole, module, "input", side(input, "input", module));
    }
    if (style.sumsInputGradient)
        for (std::size_t i = 0; i < (style.sumsEveryInput ? arguments.size() : 1); ++i)
            sumInputGradient(module, arguments[i]);
    return true;
}

bool FlowRun::giveOutput(ModuleIndex module, const ParallelStyle &style, const Frame &frame, Values &outputs) {
    const Module &self = m_index.module(module);
    if (!style.requiresConfigKey.empty() && !m_index.model().config.has(std::string(style.requiresConfigKey))) {
        fails(FlowCause::ConfigKey, module, "output", {}, style.requiresConfigKey);
        return false;
    }
    const Tensors tensors = style.tensors();
    if (outputs.empty())
        return true;
    Value &output = outputs.front();
    if (style.dispatchesTokens)
        return returnTokens(module, output);
    const bool changes = style.output != ParallelStyle::Output::None;
    if (style.takesOutput && self.returnsTuple) {
        fails(FlowCause::TupleOutput, module, "output", {});
        return false;
    }
    if (style.sync == ParallelStyle::Sync::RopeColumns)
        sumColumns(module, output);
    const bool wasDistributed = output.form != Form::Local;
    if (tensors == Tensors::Distributed || tensors == Tensors::LocalInInference || changes)
        output.form = Form::Local;
    const bool view = needsGradients() && style.takesOutput &&
                      (tensors == Tensors::Distributed || tensors == Tensors::LocalInInference);
    output.madeLocal = view;
    if (output.unknown || !output.layout.tracked() || !changes)
        return true;
    // A DTensor that claims to be whole needs no collective.
    if (wasDistributed)
        return true;
    if (style.output == ParallelStyle::Output::Gather) {
        if (tensors == Tensors::Distributed && !self.isEmbedding) {
            fails(FlowCause::OutputAttribute, module, "output", {}, "embedding_dim");
            return false;
        }
        output = gather(module, output);
    } else {
        output = reduce(module, output);
        if (frame.hidesBias && !output.unknown)
            output = addBias(module, output);
    }
    output.madeLocal = view;
    return !output.unknown;
}

bool FlowRun::gatherPieces(ModuleIndex module, Value &value) {
    if (value.form != Form::Sequence)
        return true;
    fails(FlowCause::SequenceInput, module, "input", side(value, "input", module));
    return false;
}

// Tokens travel to the rank of their experts. Backward: each rank sends back the gradients of its part of the tokens,
// and all parts are gathered. Source: transformers 5.24 distributed/expert_parallel.py AllToAllEP; AllReduceEP, which
// runs without gradients, gives the same.
bool FlowRun::dispatch(ModuleIndex module, Values &arguments, Frame &frame) {
    constexpr std::size_t statesIndicesWeights = 3;
    if (arguments.size() != statesIndicesWeights) {
        fails(FlowCause::DispatchCall, module, "call", {});
        return false;
    }
    frame.dispatched = true;
    for (Value &value : arguments) {
        value.form = Form::Local;
        if (!needsGradients() || value.gradient < 0)
            continue;
        const int in = value.gradient;
        value.gradient = newSlot();
        m_tape.record([in, out = value.gradient](GradientTape &tape) { tape.add(in, ownPart(tape.at(out))); });
    }
    return true;
}

bool FlowRun::returnTokens(ModuleIndex module, Value &output) {
    if (output.unknown || !output.layout.tracked())
        return true;
    std::vector<FlowSide> sides = side(output, "output", module);
    if (!output.layout.isSame()) {
        output = fails(FlowCause::ReducedParts, module, "all-reduce", std::move(sides));
        return false;
    }
    if (output.partial())
        spoil(output, FlowCause::ExpertShards, module, "all-reduce", std::move(sides));
    output.contracted = Layout();
    output.origin = module;
    output.form = Form::Local;
    if (needsGradients()) {
        const int in = output.gradient;
        output.gradient = newSlot();
        m_tape.record([in, out = output.gradient](GradientTape &tape) { tape.add(in, ownPart(tape.at(out))); });
    }
    return true;
}

Value FlowRun::splitInput(const Value &value) {
    if (value.unknown || !value.layout.tracked())
        return value;
    Value part = value;
    part.layout = value.layout.ownChunk();
    part.gradient = newSlot();
    if (needsGradients()) // backward: an all-gather of what each rank has of its own slice
        m_tape.record([in = value.gradient, out = part.gradient](GradientTape &tape) {
            tape.add(in, ownPart(tape.at(out)));
        });
    return part;
}

Value FlowRun::reduce(ModuleIndex module, const Value &value) {
    std::vector<FlowSide> sides = side(value, "output", module);
    if (!value.layout.isSame()) {
        for (int r = 1; r < m_tp; ++r)
            if (value.layout.width(r) != value.layout.width(0))
                return fails(FlowCause::ReducedParts, module, "all-reduce", std::move(sides));
        Value y = value;
        misfit(y, value, FlowCause::ReducedParts, module, "all-reduce", std::move(sides));
        y.contracted = Layout();
        y.origin = module;
        return y;
    }
    Value y = value;
    y.origin = module;
    if (!value.partial()) {
        y.power += 1;
        if (y.power == 0)
            y.pending = -1;
        else if (y.pending < 0)
            y.pending = suspect(FlowCause::ReducedWhole, module, "all-reduce", std::move(sides));
    } else {
        if (!value.contracted.isPartition())
            spoil(y, FlowCause::ReducedParts, module, "all-reduce", std::move(sides));
        y.contracted = Layout();
    }
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([=, this, in = value.gradient, out = y.gradient, whole = !value.partial()](GradientTape &tape) {
            // Backward of a sum is the identity; of what was whole already that is tp times too little.
            GradientKind kind = tape.at(out);
            if (whole && (kind.state == State::Complete || kind.state == State::Partial)) {
                kind.power -= 1;
                kind.cause = suspect(FlowCause::ReducedWhole, module, "all-reduce", {});
            }
            tape.add(in, kind);
        });
    return y;
}

Value FlowRun::gather(ModuleIndex module, const Value &value) {
    const Layout expected = chunked(value.layout.extent(), 1);
    std::vector<FlowSide> sides = side(value, "output", module);
    sides.push_back({module, expected, "gather"});
    if (!value.layout.sameWidths(expected))
        return fails(FlowCause::GatherWidth, module, "all-gather", std::move(sides));
    Value y = value;
    if (!(value.layout == expected))
        misfit(y, value, FlowCause::GatherChannels, module, "all-gather", std::move(sides));
    y.layout = full(value.layout.extent());
    y.origin = module;
    y.gradient = newSlot();
    if (needsGradients()) // backward: each rank's slice of what it has
        m_tape.record([in = value.gradient, out = y.gradient](GradientTape &tape) {
            tape.add(in, ownPart(tape.at(out)));
        });
    return y;
}

Value FlowRun::addBias(ModuleIndex module, const Value &value) {
    Frame frame;
    frame.self = module;
    frame.own = OwnTensors::Local;
    const auto bias = operand("bias", frame);
    if (!bias)
        return value;
    Value y = value;
    if (!joinBias(y, *bias, false, "bias", frame))
        return behindError();
    if (value.power != 0)
        spoilScaled(y, value, "bias", frame);
    y.gradient = newSlot();
    if (needsGradients())
        m_tape.record([in = value.gradient, out = y.gradient, slot = bias->parameter->id](GradientTape &tape) {
            tape.add(slot, tape.at(out));
            tape.add(in, tape.at(out));
        });
    return y;
}

// The gradient of the last qk_rope_head_dim columns is summed: right only where just those are shares.
void FlowRun::sumColumns(ModuleIndex module, Value &value) {
    if (!needsGradients() || value.gradient < 0)
        return;
    const int in = value.gradient;
    const auto columns = m_index.model().config.integer("qk_rope_head_dim", 0).value_or(0);
    value.gradient = newSlot();
    value.tailGradient = newSlot();
    value.tailBegin = value.layout.tracked() ? value.layout.extent() - columns : 0;
    m_tape.record([=, this, out = value.gradient, tailOut = value.tailGradient](GradientTape &tape) {
        const GradientKind head = tape.at(out);
        const GradientKind tail = tape.at(tailOut).none() ? head : tape.at(tailOut);
        if (head.none() && tail.none())
            return;
        GradientKind summed = allReduced(tail);
        if (!summed.right() && !summed.none())
            summed = GradientKind::wrongBecause(suspect(FlowCause::GradientRepeated, module, "output gradient", {}));
        tape.add(in, head);
        tape.add(in, summed);
    });
}

void FlowRun::sumInputGradient(ModuleIndex module, Value &value) {
    if (!needsGradients() || value.gradient < 0)
        return;
    const int in = value.gradient;
    value.gradient = newSlot();
    const bool same = value.layout.isSame();
    m_tape.record([=, this, out = value.gradient](GradientTape &tape) {
        GradientKind kind = tape.at(out);
        if (kind.none())
            return;
        if (!same) // sums gradients of different channels
            kind = GradientKind::wrongBecause(suspect(FlowCause::GradientRepeated, module, "input gradient", {}));
        else if (kind.state == State::Complete)
            kind = {kind.state, kind.power + 1, suspect(FlowCause::GradientRepeated, module, "input gradient", {})};
        else
            kind = allReduced(kind);
        tape.add(in, kind);
    });
}

} // namespace tpscope
