// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/tensornames.h"

#include <algorithm>

namespace tpscope {
namespace {

ModuleIndex ensure(ModuleTree &tree, const std::string &fullName) {
    if (const auto found = tree.indexOf(fullName))
        return *found;
    const std::size_t dot = fullName.rfind('.');
    const ModuleIndex parent = ensure(tree, dot == std::string::npos ? "" : fullName.substr(0, dot));
    return tree.add(parent, dot == std::string::npos ? fullName : fullName.substr(dot + 1), "?");
}

} // namespace

Result<ModelDescription> describeFromTensorNames(const ModelConfig &config, const Checkpoint &checkpoint) {
    ModelDescription model;
    model.config = config;
    model.modelType = config.modelType();
    model.className = config.modelType().empty() ? "a model of unknown type" : config.modelType();
    model.baseModelPrefix = "model";
    const auto dtype = config.dtype();
    if (!dtype)
        return tl::unexpected(dtype.error());
    model.dtype = *dtype;
    model.tree.add(std::nullopt, "", model.className);
    std::vector<std::string> names = checkpoint.names();
    // Numbered modules in numeric order, so that layer 10 stands behind layer 9.
    std::ranges::sort(names, [](const std::string &a, const std::string &b) {
        return a.size() != b.size() && genericName(a) == genericName(b) ? a.size() < b.size() : a < b;
    });
    for (const std::string &name : names) {
        const TensorEntry *entry = checkpoint.find(name);
        const std::size_t dot = name.rfind('.');
        const ModuleIndex owner = ensure(model.tree, dot == std::string::npos ? "" : name.substr(0, dot));
        model.tree.modules[owner.value].parameters.push_back(
            {dot == std::string::npos ? name : name.substr(dot + 1), entry->shape, entry->dtype});
    }
    // A matrix called weight may belong to a linear module: what nobody knows is not refused.
    for (Module &module : model.tree.modules)
        if (const Parameter *weight = module.parameter("weight"); weight && weight->shape.size() == 2)
            module.hasInFeatures = module.hasOutFeatures = true;
    return model;
}

} // namespace tpscope
