// SPDX-License-Identifier: GPL-3.0-or-later
#include <ATen/ATen.h>

#include "exec/activation.h"
#include "exec/execution.h"
#include "exec/trainingkernels.h"

namespace tpscope {
namespace {

ModuleConstants constantsOf(const Module &self) {
    ModuleConstants constants;
    constants.eps = self.real("eps");
    constants.normOffset = self.real("weight_offset");
    constants.embedScale = self.real("embed_scale", 1.0);
    constants.scaling = self.real("scaling", 1.0);
    constants.headDim = self.integer("head_dim");
    constants.groups = self.integer("num_key_value_groups", 1);
    constants.window = self.integer("sliding_window");
    constants.topK = self.integer("top_k", 1);
    constants.expertGroups = self.integer("n_group");
    constants.chosenGroups = self.integer("topk_group");
    constants.routedScaling = self.real("routed_scaling_factor", 1.0);
    constants.softmaxChosen = self.flag("softmax_chosen");
    constants.gluAlpha = self.real("swiglu_alpha", 1.0);
    constants.gluLimit = self.real("swiglu_limit");
    constants.sumsToOne = self.flag("norm_topk_prob");
    constants.layer = static_cast<std::size_t>(self.integer("layer_idx"));
    constants.activation = findActivation(self.text("function"));
    return constants;
}

Result<void> addRopes(ExecutionModel &model) {
    const ModelDescription &description = model.description;
    std::map<std::string, RopeParameters> parameters = description.ropeByLayerType;
    if (parameters.empty())
        parameters.emplace("", description.rope);
    for (const auto &[layerType, rope] : parameters) {
        auto frequencies = ropeFrequencies(rope, description.dims.headDim, description.dims.maxPositions);
        if (!frequencies)
            return tl::unexpected(frequencies.error());
        model.ropes.emplace(layerType, std::move(*frequencies));
    }
    return {};
}

Result<void> checkSupported(const Instruction &instruction, const Module &self, const ModuleConstants &constants) {
    if (instruction.step != Step::Operation)
        return {};
    if (!kernelOf(instruction) || !trainingKernelOf(instruction))
        return fail(ErrorCode::Unsupported, "no native kernel for the operation " +
                                                std::string(name(instruction.operation->kind)) + " of " + self.name);
    if (instruction.operation->kind == OpKind::Activation && !constants.activation)
        return fail(ErrorCode::Unsupported, "no native kernel for the activation \"" + self.text("function") +
                                                "\" of " + self.name + "; there are " + activationNames());
    return {};
}

} // namespace

Result<ExecutionModel> ExecutionModel::make(const ModelDescription &description, const InstructionList &list,
                                            const ShardedModel &weights, ProcessGroup *group,
                                            const std::string &attention) {
    ExecutionModel model{description, list, weights, group, attention.empty() ? description.attention : attention};
    if (const auto added = addRopes(model); !added)
        return tl::unexpected(added.error());
    for (const std::string &parameter : list.parameters) {
        const LocalParameter *local = weights.find(parameter);
        if (!local)
            return fail(ErrorCode::Unsupported, "the forward uses " + parameter + ", which the model does not list");
        model.parameters.push_back(local);
    }
    for (const Instruction &instruction : list.instructions) {
        const Module &self = description.tree.at(instruction.module);
        model.constants.push_back(constantsOf(self));
        const auto rope = model.ropes.find(instruction.argument);
        model.constants.back().rope = &(rope == model.ropes.end() ? model.ropes.begin() : rope)->second;
        if (const auto checked = checkSupported(instruction, self, model.constants.back()); !checked)
            return tl::unexpected(checked.error());
    }
    return model;
}

} // namespace tpscope
