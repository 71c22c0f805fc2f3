// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph/shapeflow.h"

#include <algorithm>

#include "shard/shardlayout.h"

namespace tpscope {
namespace {

std::string textOf(const std::map<std::string, Attribute> &attributes, const std::string &key) {
    const auto found = attributes.find(key);
    const auto *text =
        found == attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
    return text ? *text : std::string();
}

std::int64_t wholeWidth(const Module &module, std::int64_t fallback) {
    return module.integer("out_features", module.integer("embedding_dim", fallback));
}

} // namespace

ShapeFlow::ShapeFlow(const ModelDescription &model, const ResolvedPlan &plan,
                     const StaticCache *cache)
    : m_model(model), m_plan(plan), m_cache(cache), m_parameters(model.tree.modules.size()) {}

Sizes ShapeFlow::parameter(ModuleIndex self, const std::string &name) const {
    const Module &module = m_model.tree.at(self);
    std::vector<Sizes> &sizes = m_parameters[self.value];
    if (sizes.empty())
        for (const Parameter &own : module.parameters) {
            Sizes local(own.shape);
            const std::string full = module.name.empty() ? own.name : module.name + "." + own.name;
            const ParallelStyle *style = m_plan.tp > 1 ? m_plan.styleOfParameter(full) : nullptr;
            const Placement placement = placementOf(style, own.name, own.shape);
            if (placement.kind == PlacementKind::Shard ||
                placement.kind == PlacementKind::StridedShard) {
                const int dim = placement.dim < 0 ? placement.dim + local.rank : placement.dim;
                std::int64_t held = 0;
                for (const Interval &interval :
                     heldIntervals(own.shape[static_cast<std::size_t>(dim)], m_plan.tp, Rank(0),
                                   groupsHeld(own, placement)))
                    held += interval.size();
                local.at[static_cast<std::size_t>(dim)] = held;
            }
            sizes.push_back(local);
        }
    for (std::size_t i = 0; i < module.parameters.size(); ++i)
        if (module.parameters[i].name == name)
            return sizes[i];
    return {};
}

TracedValue ShapeFlow::styleInput(const ParallelStyle &style, TracedValue input) const {
    if (style.input != ParallelStyle::Input::Split || input.kind != TracedValue::Kind::Tensor)
        return input;
    input.local = -1;
    input.sizes.setLast(chunkOf(input.sizes.last(), m_plan.tp, Rank(0)).size());
    return input;
}

TracedValue ShapeFlow::styleOutput(const ParallelStyle &style, ModuleIndex self, TracedValue output) const {
    if (style.output == ParallelStyle::Output::None || output.kind != TracedValue::Kind::Tensor)
        return output;
    output.local = -1;
    if (style.output == ParallelStyle::Output::Gather)
        output.sizes.setLast(wholeWidth(m_model.tree.at(self), output.sizes.last()));
    return output;
}

std::size_t ShapeFlow::cacheLayer(const std::string &name, ModuleIndex self) const {
    const Module &module = m_model.tree.at(self);
    if (module.attributes.contains(name))
        return static_cast<std::size_t>(std::max<std::int64_t>(0, module.integer(name)));
    return m_cache ? m_cache->layerOfMask(name) : 0;
}

std::vector<TracedValue> ShapeFlow::results(const Operation &operation, const Frame &frame) const {
    if (operation.kind == OpKind::CacheUpdate)
        return updated(operation, frame);
    if (operation.kind == OpKind::Select)
        return {selected(operation, frame)};
    if (operation.kind == OpKind::CausalMask)
        return {mask(operation, frame)};
    std::vector<TracedValue> values;
    for (std::size_t i = 0; i < operation.out.size(); ++i) {
        // Rope gives q and k, each like its own operand; tables come from one operand.
        const std::size_t operand = operation.kind == OpKind::Rope ? i : 0;
        const TracedValue first =
            operand < operation.in.size() ? frame.get(operation.in[operand]) : TracedValue();
        TracedValue value = shaped(operation, frame, first);
        value.local = -1;
        values.push_back(std::move(value));
    }
    return values;
}

TracedValue ShapeFlow::shaped(const Operation &operation, const Frame &frame, const TracedValue &first) const {
    const Module &self = m_model.tree.at(frame.self);
    const std::string weight =
        operation.parameters.empty() ? "weight" : operation.parameters.front();
    TracedValue value = first;
    Sizes &sizes = value.sizes;
    switch (operation.kind) {
    case OpKind::Embedding:
        return TracedValue::tensor({sizes.at[0], sizes.at[1], parameter(frame.self, weight).last()});
    case OpKind::Linear: sizes.setLast(parameter(frame.self, weight).at[0]); return value;
    case OpKind::ViewHeads: return viewHeads(operation, frame, first);
    case OpKind::Transpose: std::swap(sizes.at[1], sizes.at[2]); return value;
    case OpKind::RopeTable:
        return TracedValue::tensor(
            {sizes.at[0], sizes.at[1], self.integer("head_dim", m_model.dims.headDim)});
    case OpKind::CappedAttend:
    case OpKind::Attend: // q [B,heads,T,D], v [B,kv,S,Dv] -> [B,T,heads,Dv]
        return TracedValue::tensor(
            {sizes.at[0], sizes.at[2], sizes.at[1],
             operation.in.size() > 2 ? frame.get(operation.in[2]).sizes.last() : sizes.last()});
    case OpKind::FlattenTokens: return TracedValue::tensor({sizes.at[0] * sizes.at[1], sizes.last()});
    case OpKind::BatchTokens: {
        const Sizes like = operation.in.size() > 1 ? frame.get(operation.in[1]).sizes : Sizes();
        return TracedValue::tensor({like.at[0], like.at[1], sizes.last()});
    }
    case OpKind::GroupRouter:
    case OpKind::Router: return TracedValue::tensor({sizes.at[0], self.integer("top_k", 1)});
    case OpKind::ExpertProduct: {
        const Sizes chosen = operation.in.size() > 1 ? frame.get(operation.in[1]).sizes : Sizes();
        const Sizes matrix = parameter(frame.self, weight);
        return TracedValue::tensor({sizes.at[0], operation.in.size() > 1 ? chosen.last() : sizes.at[1],
                                    operation.attributes.contains("transposed") ? matrix.last() : matrix.at[1]});
    }
    case OpKind::Concat: {
        std::int64_t width = 0;
        for (const Var &in : operation.in)
            width += frame.get(in).sizes.last();
        sizes.setLast(width);
        return value;
    }
    case OpKind::DeltaRule: return operation.in.size() > 2 ? frame.get(operation.in[2]) : value;
    case OpKind::SpreadTokens: return TracedValue::tensor({sizes.at[0], self.integer("top_k", 1), sizes.last()});
    case OpKind::InterleavedGlu: sizes.setLast(sizes.last() / 2); return value;
    case OpKind::SumExperts:
    case OpKind::CombineExperts: return TracedValue::tensor({sizes.at[0], sizes.last()});
    case OpKind::SingleHead: return TracedValue::tensor({sizes.at[0], 1, sizes.at[1], sizes.last()});
    case OpKind::DropHead: return TracedValue::tensor({sizes.at[0], sizes.at[2], sizes.last()});
    case OpKind::CatHeads:
        sizes.setLast(sizes.last() + (operation.in.size() > 1 ? frame.get(operation.in[1]).sizes.last() : 0));
        return value;
    case OpKind::Slice: {
        const auto [begin, end] = slicedPositions(operation, sizes.last());
        sizes.setLast(end - begin);
        return value;
    }
    case OpKind::MergeHeads:
        return TracedValue::tensor({sizes.at[0], sizes.at[1], sizes.at[2] * sizes.at[3]});
    default: return value;
    }
}

TracedValue ShapeFlow::viewHeads(const Operation &operation, const Frame &frame,
                           const TracedValue &first) const {
    const auto own = operation.attributes.find("head_dim");
    const auto *given =
        own == operation.attributes.end() ? nullptr : std::get_if<std::int64_t>(&own->second);
    const std::int64_t dim =
        given ? *given : m_model.tree.at(frame.self).integer("head_dim", m_model.dims.headDim);
    const std::int64_t heads = dim > 0 ? first.sizes.last() / dim : 0;
    return TracedValue::tensor({first.sizes.at[0], first.sizes.at[1], heads, dim});
}

// A mask [B,1,T,S]; S is the tokens themselves without a cache.
TracedValue ShapeFlow::mask(const Operation &operation, const Frame &frame) const {
    const TracedValue embeddings = operation.in.empty() ? TracedValue() : frame.get(operation.in.front());
    const std::int64_t batch = embeddings.sizes.at[0];
    const std::int64_t tokens = embeddings.sizes.at[1];
    const bool cached = std::ranges::any_of(
        operation.in, [&](const Var &in) { return frame.get(in).kind == TracedValue::Kind::Cache; });
    if (!cached || !m_cache)
        return TracedValue::tensor({batch, 1, tokens, tokens});
    const std::size_t layer = m_cache->layerOfMask(textOf(operation.attributes, "layer_type"));
    return TracedValue::tensor({batch, 1, tokens, m_cache->positions(layer, tokens)});
}

// The choice whose name is the current loop element's attribute (self's outside a loop); the first
// if none fits.
TracedValue ShapeFlow::selected(const Operation &operation, const Frame &frame) const {
    const Module &by = m_model.tree.at(frame.element.value_or(frame.self));
    const std::string wanted = by.text(textOf(operation.attributes, "by"));
    for (std::size_t i = 0; i < operation.in.size(); ++i)
        if (textOf(operation.attributes, "choice" + std::to_string(i)) == wanted)
            return frame.get(operation.in[i]);
    return operation.in.empty() ? TracedValue() : frame.get(operation.in.front());
}

// k, v [B,n,T,D] -> [B,n,S,D]; without a cache they stay as they are.
std::vector<TracedValue> ShapeFlow::updated(const Operation &operation, const Frame &frame) const {
    std::vector<TracedValue> values;
    std::string layerName = "layer_idx";
    for (const GuardRead &read : operation.reads)
        if (read.kind == GuardRead::Kind::CacheLength)
            layerName = read.name;
    for (std::size_t i = 0; i < operation.out.size(); ++i) {
        TracedValue value = i < operation.in.size() ? frame.get(operation.in[i]) : TracedValue();
        const bool cached = frame.get(operation.in.back()).kind == TracedValue::Kind::Cache;
        if (cached && m_cache) {
            value.local = -1;
            value.sizes.at[2] =
                m_cache->positions(cacheLayer(layerName, frame.self), value.sizes.at[2]);
        }
        values.push_back(std::move(value));
    }
    return values;
}

} // namespace tpscope
