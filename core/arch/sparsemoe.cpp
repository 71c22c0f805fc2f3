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
    module.parameters.push_back({"weight", {facts.experts, b.model.dims.hidden}, b.model.dtype, b.initStd, 0.0, {stored}});
    if (facts.pairs)
        module.parameters.push_back({"bias", {facts.experts}, b.model.dtype, b.initStd, 0.0});
    if (facts.groups > 0)
        module.buffers.push_back({"e_score_correction_bias", {facts.experts}, DType::F32, 0.0, 0.0});
    module.attributes = {{"n_group", facts.groups}, {"topk_group", facts.chosenGroups},
                         {"routed_scaling_factor", facts.scaling}, {"softmax_chosen", facts.pairs}, {"top_k", facts.chosen}, {"norm_topk_prob", facts.sumsToOne}, {"num_experts", facts.experts}};
    module.forwardProgram = facts.routerClass + ".forward";
    Operation route;
    route.kind = OpKind::Router;
    route.in = {"hidden_states"};
    route.out = {"scores", "indices"};
    route.parameters = {"weight", "bias", "e_score_correction_bias"};
    route.graphOps = 5;
    b.define({module.forwardProgram, "forward@" + b.pythonFile, {"hidden_states"}, {"scores", "indices"},
              {op(std::move(route), "router")}, false});
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
    module.parameters.push_back({"gate_up_proj", {facts.experts, 2 * facts.inner, hidden}, b.model.dtype, b.initStd, 0.0,
                                 {layer + facts.storedGate, layer + facts.storedUp}});
    module.parameters.push_back({"down_proj", {facts.experts, hidden, facts.inner}, b.model.dtype, b.initStd, 0.0,
                                 {layer + facts.storedDown}});
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
    if (facts.shared > 0) {
        b.gatedMlp(block, "shared_experts", b.model.dims.hidden, facts.shared, false, facts.activation);
        body.push_back(callModule("shared_experts", {"hidden_states"}, {"shared"}));
        body.push_back(op(OpKind::Add, {"routed", "shared"}, {"output"}, "experts + shared experts"));
    }
    b.define({facts.blockClass + ".forward", "forward@" + b.pythonFile, {"hidden_states"},
              {facts.shared > 0 ? "output" : "routed"}, std::move(body), false});
}

} // namespace tpscope::blocks
