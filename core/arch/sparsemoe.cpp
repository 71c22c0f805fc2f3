// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/decoderblocks.h"

namespace tpscope::blocks {
namespace {

Statement product(const std::string &parameter, const Var &in, const Var &out, bool transposedWithBias) {
    Operation operation;
    operation.kind = OpKind::ExpertProduct;
    operation.in = {in, "indices"};
    operation.out = {out};
    operation.parameters = {parameter};
    if (transposedWithBias) {
        operation.parameters.push_back(parameter + "_bias");
        operation.attributes = {{"transposed", true}};
    }
    return op(std::move(operation), parameter);
}

void addRouter(Builder &b, ModuleIndex block, const MoeFacts &facts, const std::string &stored) {
    const ModuleIndex router = b.model.tree.add(block, facts.routerName, facts.routerClass);
    Module &module = b.at(router);
    module.returnsTuple = true;
    module.parameters.push_back({"weight", {facts.experts, b.model.dims.hidden},
                                 facts.routerF32 ? DType::F32 : b.model.dtype, b.initStd, 0.0, {stored}});
    if (facts.pairs)
        module.parameters.push_back({"bias", {facts.experts}, b.model.dtype, b.initStd, 0.0});
    if (facts.groups > 0 && facts.groupBest == 0)
        module.buffers.push_back({"e_score_correction_bias", {facts.experts}, DType::F32, 0.0, 0.0});
    module.attributes = {{"n_group", facts.groups}, {"topk_group", facts.chosenGroups},
                         {"routed_scaling_factor", facts.scaling},
                         {"softmax_chosen", facts.pairs || facts.softmaxChosen}, {"top_k", facts.chosen},
                         {"norm_topk_prob", facts.sumsToOne}, {"num_experts", facts.experts}};
    if (facts.scaledSoftmax)
        module.attributes.emplace("embed_scale", facts.scaling);
    if (facts.groupBest > 0)
        module.attributes.emplace("best", facts.groupBest);
    module.forwardProgram = facts.routerClass + ".forward";
    Operation route;
    route.kind = facts.groupBest > 0 ? OpKind::GroupRouter : OpKind::Router;
    route.in = {"hidden_states"};
    route.out = {"scores", "indices"};
    route.parameters = {"weight", "bias", "e_score_correction_bias"};
    route.graphOps = 5;
    Body body = {op(std::move(route), "router")};
    if (facts.scaledSoftmax)
        body.push_back(op(OpKind::Scale, {"scores"}, {"scaled"}, "* routed_scaling_factor"));
    b.define({module.forwardProgram, "forward@" + b.pythonFile, {"hidden_states"},
              {facts.scaledSoftmax ? "scaled" : "scores", "indices"}, std::move(body), false});
}

// gpt_oss: no act_fn of its own, gate and up by turns.
void addPairedExperts(Builder &b, ModuleIndex block, const MoeFacts &facts) {
    Module &module = b.at(b.model.tree.add(block, "experts", facts.expertsClass));
    const std::int64_t hidden = b.model.dims.hidden;
    const auto parameter = [&](const char *name, Shape shape) {
        module.parameters.push_back({name, std::move(shape), b.model.dtype, b.initStd, 0.0});
    };
    parameter("gate_up_proj", {facts.experts, hidden, 2 * facts.inner});
    parameter("gate_up_proj_bias", {facts.experts, 2 * facts.inner});
    parameter("down_proj", {facts.experts, facts.inner, hidden});
    parameter("down_proj_bias", {facts.experts, hidden});
    module.attributes = {{"num_experts", facts.experts}, {"swiglu_alpha", facts.alpha}, {"swiglu_limit", facts.limit}};
    module.forwardProgram = facts.expertsClass + ".forward";
    b.define({module.forwardProgram, "forward@moe.py", {"hidden_states", "indices", "scores"}, {"output"},
              {product("gate_up_proj", "hidden_states", "gate_up", true),
               op(OpKind::InterleavedGlu, {"gate_up"}, {"inner"}, "_apply_gate"),
               product("down_proj", "inner", "outputs", true),
               op(OpKind::CombineExperts, {"outputs", "scores", "indices"}, {"output"}, "weighted sum of the experts")},
              false});
}

void addExperts(Builder &b, ModuleIndex block, const MoeFacts &facts, const std::string &layer) {
    const ModuleIndex experts = b.model.tree.add(block, "experts", facts.expertsClass);
    Module &module = b.at(experts);
    const std::int64_t hidden = b.model.dims.hidden;
    const bool stacked = !facts.storedStack.empty();
    module.parameters.push_back({"gate_up_proj", {facts.experts, 2 * facts.inner, hidden}, b.model.dtype, b.initStd, 0.0,
                                 stacked ? std::vector{layer + facts.storedStack}
                                         : std::vector{layer + facts.storedGate, layer + facts.storedUp}});
    module.parameters.push_back({"down_proj", {facts.experts, hidden, facts.inner}, b.model.dtype, b.initStd, 0.0,
                                 {layer + (stacked ? facts.storedDownStack : facts.storedDown)}});
    module.attributes = {{"num_experts", facts.experts}};
    module.forwardProgram = facts.expertsClass + ".forward";
    b.activation(experts, "act_fn", facts.activation);
    b.define({facts.expertsClass + ".forward", "forward@moe.py", {"hidden_states", "indices", "scores"}, {"output"},
              {product("gate_up_proj", "hidden_states", "gate_up", false), chunkOfLast("gate_up", 0, 2, "gate"),
               chunkOfLast("gate_up", 1, 2, "up"),
               callModule("act_fn", {"gate"}, {"activated"}),
               op(OpKind::Multiply, {"activated", "up"}, {"inner"}, "act_fn(gate) * up"),
               product("down_proj", "inner", "outputs", false),
               op(OpKind::CombineExperts, {"outputs", "scores", "indices"}, {"output"}, "weighted sum of the experts")},
              false});
}

// Qwen's: an MLP beside the experts, times a sigmoid of one channel.
Body gatedShared(Builder &b, ModuleIndex block, const MoeFacts &facts) {
    const std::int64_t hidden = b.model.dims.hidden;
    b.gatedMlp(block, facts.sharedName, hidden, facts.shared, false, facts.activation);
    b.linear(block, facts.sharedName + "_gate", hidden, 1, false);
    b.at(block).attributes.emplace("function", std::string("sigmoid"));
    return {op(OpKind::FlattenTokens, {"hidden_states"}, {"flat"}, "view(-1, hidden_dim)"),
            callModule(facts.sharedName, {"flat"}, {"shared"}),
            callModule(facts.routerName, {"flat"}, {"scores", "indices"}),
            callModule("experts", {"flat", "indices", "scores"}, {"summed"}),
            callModule(facts.sharedName + "_gate", {"flat"}, {"gate"}),
            op(OpKind::Activation, {"gate"}, {"open"}, "sigmoid"),
            op(OpKind::Multiply, {"shared", "open"}, {"gated"}, "sigmoid(gate) * shared expert"),
            op(OpKind::Add, {"summed", "gated"}, {"both"}, "experts + shared expert"),
            op(OpKind::BatchTokens, {"both", "hidden_states"}, {"output"}, "reshape")};
}

} // namespace

void addSparseMoe(Builder &b, ModuleIndex layer, const std::string &name, const MoeFacts &facts) {
    const std::string prefix = b.at(layer).name + ".";
    const ModuleIndex block = b.model.tree.add(layer, name, facts.blockClass);
    b.at(block).forwardProgram = facts.blockClass + ".forward";
    addRouter(b, block, facts, prefix + facts.storedRouter);
    b.at(block).returnsTuple = facts.returnsScores;
    if (facts.pairs)
        addPairedExperts(b, block, facts);
    else
        addExperts(b, block, facts, prefix);
    Body body = {op(OpKind::FlattenTokens, {"hidden_states"}, {"flat"}, "view(-1, hidden_dim)"),
                 callModule(facts.routerName, {"flat"}, {"scores", "indices"}),
                 callModule("experts", {"flat", "indices", "scores"}, {"summed"}),
                 op(OpKind::BatchTokens, {"summed", "hidden_states"}, {"routed"}, "reshape")};
    if (facts.sharedGate)
        body = gatedShared(b, block, facts);
    else if (facts.shared > 0) {
        b.gatedMlp(block, facts.sharedName, b.model.dims.hidden, facts.shared, facts.sharedBias, facts.activation);
        body.push_back(callModule(facts.sharedName, {"hidden_states"}, {"shared"}));
        body.push_back(op(OpKind::Add, {"routed", "shared"}, {"output"}, "experts + shared experts"));
    }
    b.define({facts.blockClass + ".forward", "forward@" + b.pythonFile, {"hidden_states"},
              {facts.shared > 0 ? "output" : "routed"}, std::move(body), false});
}

} // namespace tpscope::blocks
