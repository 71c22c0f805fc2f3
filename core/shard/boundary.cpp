// SPDX-License-Identifier: GPL-3.0-or-later
#include "shard/boundary.h"

#include <algorithm>

namespace tpscope {
namespace {

tl::unexpected<Error> raises(const ParallelStyle &style, const Module &module, const std::string &why) {
    return fail(ErrorCode::CannotRun, "the style " + std::string(style.name) + " on " +
                                          (module.name.empty() ? module.className : module.name) + " " + why +
                                          "; transformers raises in the forward");
}

// The embedding styles run in DTensor semantics: how the weight really lies decides what DTensor has to exchange to give
// the whole output. Linear: rows cut, the output is cut, so it is gathered, and the input's gradient summed; columns cut,
// the input is cut to match and the partial products are summed. A table the other way round.
Result<Boundary> distributed(const ParallelStyle &style, const Module &module, const Placement *weight) {
    Boundary edge;
    const bool product = module.isLinear || module.isEmbedding;
    const bool whole =
        weight && (weight->kind == PlacementKind::Replicate || weight->kind == PlacementKind::PlainTensor);
    // What DTensor takes to be whole is exchanged with nobody.
    if ((product && whole) || (module.parameters.empty() && module.children.empty()))
        return edge;
    const bool vectors =
        std::ranges::all_of(module.parameters, [](const Parameter &own) { return own.shape.size() == 1; });
    if (style.tokenShards && module.children.empty() && !product && vectors)
        return edge; // a norm of this rank's tokens
    if (style.tokenShards || !product || !weight || weight->kind != PlacementKind::Shard)
        return fail(ErrorCode::Unsupported, "the style " + std::string(style.name) + " lets " + module.name +
                                                " compute with DTensors, which the native executor does not do; "
                                                "run it with --backend transformers");
    const bool rows = weight->dim == 0;
    edge.gatheredWidth = module.integer(module.isEmbedding ? "embedding_dim" : "out_features");
    edge.gathers = rows != module.isEmbedding;
    edge.reduces = !edge.gathers;
    if (module.isLinear) {
        edge.sumsInputGradient = rows;
        edge.splitsInput = edge.defersBias = !rows;
    }
    return edge;
}

} // namespace

Result<Boundary> boundaryOf(const ParallelStyle *style, const Module &module, const ModelConfig &config,
                            const Placement *weight) {
    Boundary edge;
    if (!style)
        return edge;
    if (style->takesInput && module.calledWithKeywords)
        return raises(*style, module, "reads its first argument, but the module is called with keywords");
    if (style->takesOutput && module.returnsTuple)
        return raises(*style, module, "needs a tensor as output, but the module returns several");
    if (!style->requiresConfigKey.empty() && !config.has(std::string(style->requiresConfigKey)))
        return raises(*style, module, "needs the config's " + std::string(style->requiresConfigKey));
    if (style->tensors() == ParallelStyle::Tensors::Distributed)
        return distributed(*style, module, weight);
    edge.splitsInput = style->input == ParallelStyle::Input::Split;
    edge.dividesInput = style->input == ParallelStyle::Input::Divide;
    edge.sumsInputGradient = style->sumsInputGradient;
    edge.sumsEveryInput = style->sumsEveryInput;
    edge.dispatches = style->dispatchesTokens;
    edge.reduces = style->output == ParallelStyle::Output::Reduce;
    edge.gathers = style->output == ParallelStyle::Output::Gather;
    edge.gatheredWidth = module.integer(module.isEmbedding ? "embedding_dim" : "out_features");
    edge.defersBias = edge.reduces && style->oneDim == ParallelStyle::OneDim::BiasWhole;
    edge.hooksParameters = style->hooksParameters();
    if (style->sync == ParallelStyle::Sync::RopeColumns)
        edge.summedColumns = config.integer(std::string(style->requiresConfigKey), 0).value_or(0);
    return edge;
}

} // namespace tpscope
