// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/boundary.h"

namespace tpscope {
namespace {

using Axis = ParallelStyle::WeightAxis;

tl::unexpected<Error> raises(const ParallelStyle &style, const Module &module, const std::string &why) {
    return fail(ErrorCode::CannotRun, "the style " + std::string(style.name) + " on " +
                                          (module.name.empty() ? module.className : module.name) + " " + why +
                                          "; transformers raises in the forward");
}

// The embedding styles run in DTensor semantics: on a linear module the way its weight is cut decides what DTensor has to
// exchange to give the whole output. Rows cut: the output is cut, so it is gathered. Columns cut: the input is
// cut to match and the partial products are summed.
Boundary dtensorLinear(const ParallelStyle &style, const Module &module) {
    Boundary edge;
    edge.gathers = style.weightAxis == Axis::First;
    edge.gatheredWidth = module.integer("out_features");
    edge.splitsInput = edge.reduces = edge.defersBias = style.weightAxis == Axis::Second;
    return edge;
}

} // namespace

Result<Boundary> boundaryOf(const ParallelStyle *style, const Module &module, const ModelConfig &config) {
    Boundary edge;
    if (!style)
        return edge;
    if (style->takesInput && module.calledWithKeywords)
        return raises(*style, module, "reads its first argument, but the module is called with keywords");
    if (style->takesOutput && module.returnsTuple)
        return raises(*style, module, "needs a tensor as output, but the module returns several");
    if (!style->requiresConfigKey.empty() && !config.has(std::string(style->requiresConfigKey)))
        return raises(*style, module, "needs the config's " + std::string(style->requiresConfigKey));
    const bool forEmbeddings = style->weightAxis == Axis::First || style->weightAxis == Axis::Second;
    if (forEmbeddings && style->localTensors && module.isLinear)
        return dtensorLinear(*style, module);
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
