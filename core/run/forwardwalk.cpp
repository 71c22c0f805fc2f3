// SPDX-License-Identifier: GPL-3.0-or-later
#include <set>
#include <unordered_map>

#include "run/costrows.h"
#include "shard/boundary.h"

namespace tpscope {
namespace {

// A tensor on one rank.
struct Local {
    LocalShape shape;
    bool gradient = false; // in training: a gradient flows back to it
};
using Values = std::vector<Local>;

// Masks and tables are made of what is known before; which experts are chosen is a number.
bool passesGradient(OpKind kind, std::size_t output) {
    return kind != OpKind::RopeTable && kind != OpKind::CausalMask && (kind != OpKind::Router || output == 0);
}

// The walk of one rank: interprets the programs with local shapes instead of tensors and notes the work.
class RankWalk {
public:
    // training: collectives of a backward are noted as well, beside those of the forward.
    RankWalk(const ModelDescription &model, const ResolvedPlan &plan, const ShardLayout &layout, Rank rank,
             bool training = false)
        : m_model(model), m_plan(plan), m_rank(rank), m_training(training),
          m_elementBytes(static_cast<double>(elementSize(model.dtype))) {
        for (const ParameterShard &shard : layout.parameters)
            m_shards.emplace(shard.name, &shard);
        for (const Tie &tie : model.tree.ties)
            if (const auto source = m_shards.find(tie.source); source != m_shards.end())
                m_shards.emplace(tie.target, source->second);
    }

    Result<std::vector<WorkItem>> run(int batch, int tokens);

private:
    struct Frame {
        ModuleIndex self;
        std::unordered_map<Var, Local> values;
        std::unordered_map<std::string, ModuleIndex> elements; // of loops
    };

    Result<Values> callModule(ModuleIndex index, Values arguments);
    Result<Values> callProgram(const std::string &id, ModuleIndex self, const Values &arguments);
    Result<void> walk(const Body &body, Frame &frame);
    Result<void> operation(const Operation &operation, Frame &frame);
    Result<void> call(const CallModule &call, Frame &frame);
    Result<void> loop(const LoopModules &loop, Frame &frame);
    Result<void> store(const Result<Values> &values, const std::vector<Var> &out, Frame &frame);
    Values argumentsOf(const std::vector<Var> &names, const Frame &frame) const;
    void collective(std::string_view op, ModuleIndex module, const Shape &in, const Shape &full);
    Result<Boundary> boundaryAt(ModuleIndex index) const;
    void enter(const Boundary &edge, ModuleIndex index, Values &arguments);
    void leave(const Boundary &edge, ModuleIndex index, Values &values);
    const ParameterShard *shardOf(const Module &module, const std::string &parameter) const;

    const ModelDescription &m_model;
    const ResolvedPlan &m_plan;
    Rank m_rank;
    bool m_training;
    double m_elementBytes;
    std::unordered_map<std::string, const ParameterShard *> m_shards;
    std::vector<WorkItem> m_items;
};

const ParameterShard *RankWalk::shardOf(const Module &module, const std::string &parameter) const {
    const auto it = m_shards.find(module.name.empty() ? parameter : module.name + "." + parameter);
    return it == m_shards.end() ? nullptr : it->second;
}

Values RankWalk::argumentsOf(const std::vector<Var> &names, const Frame &frame) const {
    Values values;
    values.reserve(names.size());
    for (const Var &variable : names) {
        const auto it = frame.values.find(variable);
        values.push_back(it == frame.values.end() ? Local{} : it->second);
    }
    return values;
}

Result<void> RankWalk::store(const Result<Values> &values, const std::vector<Var> &out, Frame &frame) {
    if (!values)
        return tl::unexpected(values.error());
    for (std::size_t i = 0; i < out.size(); ++i)
        frame.values[out[i]] = i < values->size() ? (*values)[i] : Local{};
    return {};
}

void RankWalk::collective(std::string_view op, ModuleIndex module, const Shape &in, const Shape &full) {
    WorkItem item;
    item.isCollective = true;
    item.op = op;
    item.module = module;
    item.layer = layerOf(m_model.tree, module);
    item.messageBytes = static_cast<double>(elementCount(in)) * m_elementBytes;
    item.fullBytes = static_cast<double>(elementCount(full)) * m_elementBytes;
    m_items.push_back(item);
}

Result<Boundary> RankWalk::boundaryAt(ModuleIndex index) const {
    const Module &module = m_model.tree.at(index);
    const ParameterShard *weight = shardOf(module, "weight");
    return boundaryOf(m_plan.tp > 1 ? m_plan.styleOfModule(index) : nullptr, module, m_model.config,
                      weight ? &weight->placement : nullptr);
}

// What the style does to the input, and in a backward to its gradient.
void RankWalk::enter(const Boundary &edge, ModuleIndex index, Values &arguments) {
    for (std::size_t i = 0; i < arguments.size() && (i == 0 || edge.sumsEveryInput); ++i)
        if (edge.sumsInputGradient && arguments[i].gradient)
            collective("all_reduce", index, *arguments[i].shape, *arguments[i].shape);
    if (!edge.splitsInput || arguments.empty() || !arguments[0].shape)
        return;
    const Shape whole = *arguments[0].shape;
    std::int64_t &features = arguments[0].shape->back();
    features = chunkOf(features, m_plan.tp, m_rank).size();
    if (arguments[0].gradient)
        collective("all_gather", index, *arguments[0].shape, whole);
}

void RankWalk::leave(const Boundary &edge, ModuleIndex index, Values &values) {
    if (values.empty() || !values[0].shape)
        return;
    Shape &out = *values[0].shape;
    if (edge.reduces)
        collective("all_reduce", index, out, out);
    if (edge.gathers) {
        const Shape local = out;
        out.back() = edge.gatheredWidth;
        collective("all_gather", index, local, out);
    }
    if (edge.summedColumns > 0 && values[0].gradient) {
        Shape columns = out;
        columns.back() = edge.summedColumns;
        collective("all_reduce", index, columns, columns);
    }
}

Result<Values> RankWalk::callModule(ModuleIndex index, Values arguments) {
    const Module &module = m_model.tree.at(index);
    const auto edge = boundaryAt(index);
    if (!edge)
        return tl::unexpected(edge.error());
    if (edge->dispatches && m_training)
        return fail(ErrorCode::Unsupported, "how many tokens travel to which expert depends on the tokens");
    enter(*edge, index, arguments);
    auto values = callProgram(module.callProgram.empty() ? module.forwardProgram : module.callProgram, index,
                              arguments);
    if (values)
        leave(*edge, index, *values);
    return values;
}

Result<Values> RankWalk::callProgram(const std::string &id, ModuleIndex self, const Values &arguments) {
    const auto it = m_model.programs.find(id);
    if (it == m_model.programs.end())
        return fail(ErrorCode::Unsupported, "the flow of " + m_model.tree.at(self).name + " is not described");
    const ForwardProgram &program = it->second;
    Frame frame{self, {}, {}};
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
        frame.values[program.inputs[i]] = i < arguments.size() ? arguments[i] : Local{};
    if (const auto walked = walk(program.body, frame); !walked)
        return tl::unexpected(walked.error());
    return argumentsOf(program.outputs, frame);
}

Result<void> RankWalk::operation(const Operation &operation, Frame &frame) {
    if (m_training && operation.kind == OpKind::SliceTokens) // every token has a label
        return store(argumentsOf(operation.in, frame), operation.out, frame);
    const Module &self = m_model.tree.at(frame.self);
    OpScope scope{operation, self, {}, {}, m_elementBytes, m_elementBytes};
    bool gradient = false;
    for (const Local &in : argumentsOf(operation.in, frame)) {
        scope.in.push_back(in.shape);
        gradient = gradient || in.gradient;
    }
    for (const std::string &parameter : operation.parameters)
        if (const ParameterShard *shard = shardOf(self, parameter)) {
            scope.parameters.push_back(shard->localShapes[static_cast<std::size_t>(m_rank.value)]);
            scope.parameterElementBytes = static_cast<double>(elementSize(shard->dtype));
            gradient = gradient || m_training;
        }
    auto cost = costOf(scope);
    if (!cost)
        return tl::unexpected(cost.error());
    cost->work.module = frame.self;
    cost->work.layer = layerOf(m_model.tree, frame.self);
    m_items.push_back(cost->work);
    Values out;
    for (std::size_t i = 0; i < cost->out.size(); ++i)
        out.push_back({std::move(cost->out[i]), gradient && passesGradient(operation.kind, i)});
    return store(std::move(out), operation.out, frame);
}

Result<void> RankWalk::call(const CallModule &call, Frame &frame) {
    std::optional<ModuleIndex> callee;
    if (call.element) {
        if (const auto it = frame.elements.find(call.path); it != frame.elements.end())
            callee = it->second;
    } else {
        callee = m_model.tree.resolve(frame.self, call.path);
    }
    if (!callee)
        return fail(ErrorCode::Unsupported, "the description of " + m_model.className + " calls " + call.path +
                                                ", which is no module");
    return store(callModule(*callee, argumentsOf(call.args, frame)), call.out, frame);
}

Result<void> RankWalk::loop(const LoopModules &loop, Frame &frame) {
    const auto list = m_model.tree.resolve(frame.self, loop.list);
    if (!list)
        return fail(ErrorCode::Unsupported, "the description of " + m_model.className + " loops over " + loop.list +
                                                ", which is no module");
    for (const ModuleIndex element : m_model.tree.at(*list).children) {
        frame.elements[loop.element] = element;
        if (const auto walked = walk(loop.body, frame); !walked)
            return walked;
    }
    return {};
}

Result<void> RankWalk::walk(const Body &body, Frame &frame) {
    struct Visitor {
        RankWalk &self;
        Frame &frame;
        Result<void> operator()(const Operation &node) { return self.operation(node, frame); }
        Result<void> operator()(const CallModule &node) { return self.call(node, frame); }
        Result<void> operator()(const CallFunction &node) {
            return self.store(self.callProgram(node.program, frame.self, self.argumentsOf(node.args, frame)),
                              node.out, frame);
        }
        Result<void> operator()(const CallForward &node) {
            const std::string &forward = self.m_model.tree.at(frame.self).forwardProgram;
            return self.store(self.callProgram(forward, frame.self, self.argumentsOf(node.args, frame)), node.out,
                              frame);
        }
        Result<void> operator()(const LoopModules &node) { return self.loop(node, frame); }
        Result<void> operator()(const TryBlock &node) { return self.walk(node.body, frame); }
    };
    for (const Statement &statement : body)
        if (const auto done = std::visit(Visitor{*this, frame}, statement.node); !done)
            return done;
    return {};
}

Result<std::vector<WorkItem>> RankWalk::run(int batch, int tokens) {
    m_items.clear();
    const Shape ids{batch, tokens};
    const auto &root = m_model.program(m_model.tree.root().forwardProgram);
    // The model is called with ids; positions have their shape; masks and caches are no tensors of the walk.
    Values arguments;
    for (const Var &input : root.inputs)
        arguments.push_back({arguments.empty() || input == "position_ids" ? LocalShape{ids} : LocalShape{}});
    if (const auto values = callModule(ModuleIndex{0}, std::move(arguments)); !values)
        return tl::unexpected(values.error());
    return std::move(m_items);
}

// Ranks that hold the same shapes do the same work.
bool sameShapes(const ShardLayout &layout, std::size_t a, std::size_t b) {
    for (const ParameterShard &shard : layout.parameters)
        if (shard.localShapes[a] != shard.localShapes[b])
            return false;
    return true;
}

} // namespace

int layerOf(const ModuleTree &tree, ModuleIndex module) {
    for (std::optional<ModuleIndex> at = module; at; at = tree.at(*at).parent)
        if (tree.at(*at).attributes.contains("layer_idx"))
            return static_cast<int>(tree.at(*at).integer("layer_idx"));
    return -1;
}

Result<ForwardWork> forwardWork(const ModelDescription &model, const ResolvedPlan &plan, int batch, int tokens) {
    if (!model.flowKnown())
        return fail(ErrorCode::Unsupported, "the forward of model_type '" + model.modelType +
                                                "' is not described, so its cost cannot be simulated");
    const ShardLayout layout = shardLayout(model, plan);
    ForwardWork work{batch, tokens, {}, {}};
    std::vector<std::size_t> firstOfKind; // ranks
    for (int rank = 0; rank < plan.tp; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        std::size_t kind = 0;
        while (kind < firstOfKind.size() && !sameShapes(layout, firstOfKind[kind], index))
            ++kind;
        work.kindOf.push_back(kind);
        if (kind < firstOfKind.size())
            continue;
        auto items = RankWalk(model, plan, layout, Rank{rank}).run(batch, tokens);
        if (!items)
            return tl::unexpected(items.error());
        if (kind > 0 && items->size() != work.kinds.front().size())
            return fail(ErrorCode::CannotRun, "cannot be simulated: ranks do different numbers of operations");
        firstOfKind.push_back(index);
        work.kinds.push_back(std::move(*items));
    }
    return work;
}

Result<std::map<std::string, CollectiveCount>> trainingCollectives(const ModelDescription &model,
                                                                   const ResolvedPlan &plan, HookMode hooks, int batch,
                                                                   int tokens) {
    if (!model.flowKnown())
        return fail(ErrorCode::Unsupported, "the forward of model_type '" + model.modelType + "' is not described");
    const ShardLayout layout = shardLayout(model, plan);
    const auto items = RankWalk(model, plan, layout, Rank{0}, true).run(batch, tokens);
    if (!items)
        return tl::unexpected(items.error());
    std::map<std::string, CollectiveCount> counts = totals(*items, tokens).collectives;
    std::set<std::string> summed;
    for (const HookSite &site : hooks == HookMode::None ? std::vector<HookSite>{} : hookSites(model, plan, hooks))
        summed.insert(site.parameters.begin(), site.parameters.end());
    for (const ParameterShard &shard : layout.parameters)
        if (summed.contains(shard.name)) {
            ++counts["all_reduce"].count;
            counts["all_reduce"].bytes += shard.bytes.front();
        }
    return counts;
}

} // namespace tpscope
