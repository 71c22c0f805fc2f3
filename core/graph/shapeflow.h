// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "graph/frame.h"
#include "graph/staticcache.h"
#include "plan/resolvedplan.h"

namespace tpscope {

// Shapes of activations on rank 0 under a plan: a linear gives this rank's rows of its weight,
// heads follow from the width, a style's gather restores the whole width. Ranks 1.. differ in sizes
// only where chunks are uneven; the recorded frames are those of rank 0
// (tests/data/fixtures/graph_breaks.json, "method").
class ShapeFlow {
public:
    // cache: nullptr for a forward without one. All references must outlive this object.
    ShapeFlow(const ModelDescription &model, const ResolvedPlan &plan, const StaticCache *cache);

    // The values of operation.out, in order. An operation kind without a row of its own keeps the
    // first operand's shape.
    std::vector<TracedValue> results(const Operation &operation, const Frame &frame) const;
    // What a style makes of the first input and of the first output of module `self` on their way
    // through tp_forward.
    TracedValue styleInput(const ParallelStyle &style, TracedValue input) const;
    TracedValue styleOutput(const ParallelStyle &style, ModuleIndex self, TracedValue output) const;
    // Shape of a parameter of module self as rank 0 holds it; rank 0 scalar when there is none.
    Sizes parameter(ModuleIndex self, const std::string &name) const;
    // The cache layer that an operation reading the cache looks at: named by self's attribute or by
    // a layer type.
    std::size_t cacheLayer(const std::string &name, ModuleIndex self) const;

private:
    TracedValue shaped(const Operation &operation, const Frame &frame, const TracedValue &first) const;
    TracedValue viewHeads(const Operation &operation, const Frame &frame, const TracedValue &first) const;
    TracedValue mask(const Operation &operation, const Frame &frame) const;
    TracedValue selected(const Operation &operation, const Frame &frame) const;
    std::vector<TracedValue> updated(const Operation &operation, const Frame &frame) const;

    const ModelDescription &m_model;
    const ResolvedPlan &m_plan;
    const StaticCache *m_cache;
    mutable std::vector<std::vector<Sizes>> m_parameters; // by module, filled when first asked for
};

} // namespace tpscope
