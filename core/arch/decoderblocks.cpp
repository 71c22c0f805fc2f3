// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/decoderblocks.h"

namespace tpscope::blocks {

Statement op(Operation operation, std::string label) { return {std::move(operation), std::move(label)}; }

Statement op(OpKind kind, std::vector<Var> in, std::vector<Var> out, std::string label) {
    Operation operation;
    operation.kind = kind;
    operation.in = std::move(in);
    operation.out = std::move(out);
    return {std::move(operation), std::move(label)};
}

Statement cacheUpdate(const Var &first, const Var &second, std::vector<Var> out, std::string label) {
    Operation update;
    update.kind = OpKind::CacheUpdate;
    update.in = {first, second, "cache"};
    update.out = std::move(out);
    update.reads = {{GuardRead::Kind::SelfAttribute, "layer_idx"}, {GuardRead::Kind::CacheLength, "layer_idx"}};
    update.graphOps = 2;
    return op(std::move(update), std::move(label));
}

Statement sliceOfLast(const Var &in, std::int64_t begin, std::int64_t end, const Var &out, std::int64_t whole) {
    Operation slice;
    slice.kind = OpKind::Slice;
    slice.in = {in};
    slice.out = {out};
    slice.attributes = {{"begin", begin}, {"end", end}};
    if (whole > 0)
        slice.attributes.emplace("whole", whole);
    return op(std::move(slice), "split");
}

Statement viewHeads(const Var &in, std::int64_t headDim, const Var &out, std::int64_t heads) {
    Operation view;
    view.kind = OpKind::ViewHeads;
    view.in = {in};
    view.out = {out};
    view.attributes = {{"head_dim", headDim}};
    if (heads > 0)
        view.attributes.emplace("heads", heads);
    return op(std::move(view), "view");
}

Statement chunkOfLast(const Var &in, std::int64_t chunk, std::int64_t of, const Var &out) {
    Operation slice;
    slice.kind = OpKind::Slice;
    slice.in = {in};
    slice.out = {out};
    slice.attributes = {{"chunk", chunk}, {"of", of}};
    return op(std::move(slice), "chunk(" + std::to_string(of) + ", dim=-1)");
}

Statement callModule(std::string path, std::vector<Var> args, std::vector<Var> out, std::string label) {
    return {CallModule{std::move(path), std::move(args), std::move(out), false}, std::move(label)};
}

Statement callFunction(std::string program, std::vector<Var> args, std::vector<Var> out, std::string label) {
    return {CallFunction{std::move(program), std::move(args), std::move(out)}, std::move(label)};
}

void Builder::define(ForwardProgram program) {
    const std::string id = program.id;
    model.programs.emplace(id, std::move(program));
}

ModuleIndex Builder::linear(ModuleIndex parent, const std::string &name, std::int64_t in, std::int64_t out,
                            bool bias) {
    const ModuleIndex index = model.tree.add(parent, name, "Linear");
    Module &module = at(index);
    module.parameters.push_back({"weight", {out, in}, model.dtype, initStd, 0.0});
    if (bias)
        module.parameters.push_back({"bias", {out}, model.dtype, 0.0, 0.0});
    module.attributes = {{"in_features", in}, {"out_features", out}};
    module.isLinear = module.hasInFeatures = module.hasOutFeatures = true;
    module.forwardProgram = "Linear.forward";
    Operation matmul;
    matmul.kind = OpKind::Linear;
    matmul.in = {"input"};
    matmul.out = {"output"};
    matmul.parameters = {"weight", "bias"};
    define({"Linear.forward", "forward@linear.py", {"input"}, {"output"}, {op(matmul, "F.linear")}, true});
    return index;
}

ModuleIndex Builder::embedding(ModuleIndex parent, const std::string &name, std::int64_t rows,
                               std::int64_t columns) {
    const ModuleIndex index = model.tree.add(parent, name, "Embedding");
    Module &module = at(index);
    module.parameters.push_back({"weight", {rows, columns}, model.dtype, initStd, 0.0});
    module.attributes = {{"num_embeddings", rows}, {"embedding_dim", columns}};
    module.isEmbedding = true;
    module.forwardProgram = "Embedding.forward";
    Operation lookup;
    lookup.kind = OpKind::Embedding;
    lookup.in = {"input"};
    lookup.out = {"output"};
    lookup.parameters = {"weight"};
    define({"Embedding.forward", "forward@sparse.py", {"input"}, {"output"}, {op(lookup, "F.embedding")}, true});
    return index;
}

ModuleIndex Builder::rmsNorm(ModuleIndex parent, const std::string &name, std::int64_t size, double eps) {
    const ModuleIndex index = model.tree.add(parent, name, prefix + "RMSNorm");
    Module &module = at(index);
    module.parameters.push_back({"weight", {size}, model.dtype, 0.0, 1.0 - normOffset});
    module.attributes = {{"eps", eps}, {"weight_offset", normOffset}};
    module.forwardProgram = prefix + "RMSNorm.forward";
    Operation norm;
    norm.kind = OpKind::RmsNorm;
    norm.in = {"hidden_states"};
    norm.out = {"output"};
    norm.parameters = {"weight"};
    norm.graphOps = 8;
    define({module.forwardProgram, "forward@" + pythonFile, {"hidden_states"}, {"output"}, {op(norm)}, false});
    return index;
}

ModuleIndex Builder::layerNorm(ModuleIndex parent, const std::string &name, std::int64_t size, double eps,
                               const std::string &className) {
    const bool torch = className.empty();
    const ModuleIndex index = model.tree.add(parent, name, torch ? "LayerNorm" : className);
    Module &module = at(index);
    module.parameters.push_back({"weight", {size}, model.dtype, 0.0, 1.0});
    if (torch)
        module.parameters.push_back({"bias", {size}, model.dtype, 0.0, 0.0});
    module.attributes = {{"eps", eps}};
    module.forwardProgram = module.className + ".forward";
    Operation norm;
    norm.kind = OpKind::LayerNorm;
    norm.in = {"hidden_states"};
    norm.out = {"output"};
    norm.parameters = {"weight", "bias"};
    norm.graphOps = torch ? 1 : 10;
    define({module.forwardProgram, "forward@" + (torch ? std::string("normalization.py") : pythonFile),
            {"hidden_states"}, {"output"}, {op(norm)}, torch});
    return index;
}

ModuleIndex Builder::activation(ModuleIndex parent, const std::string &name, const std::string &function) {
    // "silu" is transformers' own SiLUActivation and gives a frame; torch.nn classes ("swish", "tanh") would not.
    const bool plainTorch = function == "swish" || function == "tanh" || function == "relu";
    const std::string className = plainTorch ? "torch.nn." + function : function + "Activation";
    const ModuleIndex index = model.tree.add(parent, name, className);
    Module &module = at(index);
    module.attributes = {{"function", function == "swish" ? std::string("silu") : function}};
    module.forwardProgram = className + ".forward";
    define({module.forwardProgram, plainTorch ? "forward@activation.py" : "forward@activations.py", {"input"},
            {"output"}, {op(OpKind::Activation, {"input"}, {"output"})}, plainTorch});
    return index;
}

ModuleIndex Builder::dropout(ModuleIndex parent, const std::string &name) {
    const ModuleIndex index = model.tree.add(parent, name, "Dropout");
    at(index).forwardProgram = "Dropout.forward"; // does nothing in eval, nor in training with the usual p of 0
    define({"Dropout.forward", "forward@dropout.py", {"input"}, {"input"}, {}, true});
    return index;
}

void Builder::scaleEmbedding(ModuleIndex embedding, const std::string &className, double factor) {
    Module &module = at(embedding);
    module.className = className;
    module.attributes.emplace("embed_scale", factor);
    const std::string inner = module.forwardProgram;
    module.forwardProgram = className + ".forward";
    define({module.forwardProgram, "forward@" + pythonFile, {"input"}, {"output"},
            {callFunction(inner, {"input"}, {"embedded"}),
             op(OpKind::Scale, {"embedded"}, {"output"}, "* embed_scale")},
            false});
}

ModuleIndex Builder::rotary(ModuleIndex parent, const std::string &name, bool byLayerType) {
    const ModuleIndex index = model.tree.add(parent, name, prefix + "RotaryEmbedding");
    Module &module = at(index);
    module.attributes = {{"head_dim", model.dims.headDim}};
    module.returnsTuple = true;
    Operation table;
    table.kind = OpKind::RopeTable;
    table.in = {"x", "position_ids"};
    table.out = {"cos", "sin"};
    table.graphOps = 11;
    const std::string inner = prefix + "RotaryEmbedding.forward";
    std::vector<Var> inputs{"x", "position_ids"};
    if (byLayerType) {
        inputs.push_back("layer_type");
        table.reads = {{GuardRead::Kind::Argument, "layer_type"}};
    }
    define({inner, "forward@" + pythonFile, inputs, {"cos", "sin"}, {op(table)}, false});
    module.forwardProgram = wrap(inner, "dynamic_rope_update", "wrapper@modeling_rope_utils.py", false);
    return index;
}

ModuleIndex Builder::gatedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden,
                              std::int64_t inner, bool bias, const std::string &function,
                              const std::string &activationName) {
    const ModuleIndex index = model.tree.add(parent, name, prefix + "MLP");
    at(index).forwardProgram = prefix + "MLP.forward";
    linear(index, "gate_proj", hidden, inner, bias);
    activation(index, activationName, function);
    linear(index, "up_proj", hidden, inner, bias);
    linear(index, "down_proj", inner, hidden, bias);
    define({prefix + "MLP.forward", "forward@" + pythonFile, {"x"}, {"output"},
            {callModule("gate_proj", {"x"}, {"gate"}), callModule(activationName, {"gate"}, {"activated"}),
             callModule("up_proj", {"x"}, {"up"}),
             op(OpKind::Multiply, {"activated", "up"}, {"inner"}, "act_fn(gate) * up"),
             callModule("down_proj", {"inner"}, {"output"})},
            false});
    return index;
}

ModuleIndex Builder::packedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden,
                               std::int64_t inner, const std::string &function) {
    const ModuleIndex index = model.tree.add(parent, name, prefix + "MLP");
    at(index).forwardProgram = prefix + "MLP.forward";
    linear(index, "gate_up_proj", hidden, 2 * inner, false);
    activation(index, "activation_fn", function);
    linear(index, "down_proj", inner, hidden, false);
    define({prefix + "MLP.forward", "forward@" + pythonFile, {"x"}, {"output"},
            {callModule("gate_up_proj", {"x"}, {"gate_up"}), chunkOfLast("gate_up", 0, 2, "gate"),
             chunkOfLast("gate_up", 1, 2, "up"),
             callModule("activation_fn", {"gate"}, {"activated"}),
             op(OpKind::Multiply, {"up", "activated"}, {"inner"}, "up * activation_fn(gate)"),
             callModule("down_proj", {"inner"}, {"output"})},
            false});
    return index;
}

std::string Builder::wrap(const std::string &inner, const std::string &decorator, const std::string &frame,
                          bool inTry) {
    const ForwardProgram &wrapped = model.program(inner);
    ForwardProgram wrapper{inner + "/" + decorator, frame, wrapped.inputs, wrapped.outputs, {}, false,
                           decorator + ":" + frame};
    Statement call = callFunction(inner, wrapped.inputs, wrapped.outputs);
    if (inTry)
        wrapper.body.push_back({TryBlock{{std::move(call)}}, {}});
    else
        wrapper.body.push_back(std::move(call));
    const std::string id = wrapper.id;
    define(std::move(wrapper));
    return id;
}

std::string Builder::deprecateKwarg(const std::string &inner) {
    if (upstream < Upstream{5, 24})
        return inner;
    return wrap(inner, "deprecate_kwarg", "wrapped_func@deprecation.py", false);
}

std::string Builder::causalLmForward(const std::string &inner, DecoratorPlace deprecateKwargAt) {
    const bool innermost = deprecateKwargAt == DecoratorPlace::Innermost;
    const std::string id =
        wrap(innermost ? deprecateKwarg(inner) : inner, "can_return_tuple", "wrapper@generic.py", false);
    return innermost ? id : deprecateKwarg(id);
}

std::string Builder::baseModelForward(const std::string &inner, DecoratorPlace deprecateKwargAt) {
    const bool innermost = deprecateKwargAt == DecoratorPlace::Innermost;
    const std::string captured = wrap(innermost ? deprecateKwarg(inner) : inner, "capture_outputs",
                                      "wrapper@output_capturing.py", true);
    const std::string id = wrap(captured, "merge_with_config_defaults", "wrapper@generic.py", true);
    return innermost ? id : deprecateKwarg(id);
}

std::string Builder::attentionForward(const std::string &inner) { return deprecateKwarg(inner); }

std::string Builder::maskFunction(const std::string &inner) { return deprecateKwarg(inner); }

void Builder::decoderLayerForward(Module &layer, const std::string &inner) {
    const std::string forward = deprecateKwarg(inner);
    if (upstream >= Upstream{5, 23}) {
        layer.forwardProgram =
            wrap(forward, "checkpointing", "forward_with_checkpointing@modeling_layers.py", false);
        return;
    }
    const ForwardProgram &wrapped = model.program(forward);
    ForwardProgram call{inner + "/__call__", "__call__@modeling_layers.py", wrapped.inputs, wrapped.outputs, {},
                        false, "GradientCheckpointingLayer.__call__"};
    call.body.push_back({CallForward{wrapped.inputs, wrapped.outputs}, "super().__call__"});
    layer.callProgram = call.id;
    layer.forwardProgram = forward;
    define(std::move(call));
}

} // namespace tpscope::blocks
