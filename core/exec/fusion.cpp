// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <map>

#include "exec/instructions.h"

namespace tpscope {
namespace {

constexpr int none = Instruction::none;

bool isPlainProduct(const Instruction &instruction) {
    return instruction.step == Step::Operation && instruction.operation->kind == OpKind::Linear &&
           instruction.parameters.at(0) != none && (instruction.parameters.size() < 2 || instruction.parameters[1] == none);
}

// Weights can be stacked when every rank's shards have equally many columns and one dtype.
bool stackable(const ParameterShard &a, const ParameterShard &b) {
    if (a.dtype != b.dtype)
        return false;
    for (std::size_t rank = 0; rank < a.localShapes.size(); ++rank)
        if (a.localShapes[rank].size() != 2 || b.localShapes[rank].size() != 2 ||
            a.localShapes[rank][1] != b.localShapes[rank][1])
            return false;
    return true;
}

// "a.b.q" and "a.b.k" -> "a.b.q+k"
std::string joined(const ModuleTree &tree, const std::vector<const Instruction *> &products) {
    std::string name;
    for (const Instruction *product : products) {
        const Module &module = tree.at(product->module);
        name += name.empty() ? module.name : "+" + module.localName;
    }
    return name;
}

} // namespace

void fuseProducts(const ModelDescription &model, const ShardLayout &layout, InstructionList &list) {
    std::map<int, int> uses; // of a parameter: one that is used twice (tied) stays where it is
    for (const Instruction &instruction : list.instructions)
        for (const int parameter : instruction.parameters)
            ++uses[parameter];
    // Products of one input, under the same parent, in call order.
    std::map<std::pair<int, std::size_t>, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < list.instructions.size(); ++i) {
        const Instruction &instruction = list.instructions[i];
        if (!isPlainProduct(instruction) || uses[instruction.parameters[0]] > 1)
            continue;
        const auto parent = model.tree.at(instruction.module).parent;
        auto &group = groups[{instruction.in.at(0), parent ? parent->value : 0}];
        const auto shardOf = [&](const Instruction &product) {
            return layout.find(list.parameters[static_cast<std::size_t>(product.parameters[0])]);
        };
        const ParameterShard *shard = shardOf(instruction);
        if (shard && (group.empty() || stackable(*shardOf(list.instructions[group.front()]), *shard)))
            group.push_back(i);
    }
    std::vector<bool> absorbed(list.instructions.size(), false);
    for (const auto &[input, members] : groups) {
        if (members.size() < 2)
            continue;
        std::vector<const Instruction *> products;
        for (const std::size_t i : members)
            products.push_back(&list.instructions[i]);
        Instruction fused = *products.front();
        fused.step = Step::FusedLinear;
        fused.eventModule = static_cast<std::int32_t>(model.tree.modules.size() + list.fusedNames.size());
        fused.out.clear();
        fused.parameters.clear();
        for (const Instruction *product : products) {
            fused.out.push_back(product->out.at(0));
            fused.parameters.push_back(product->parameters.at(0));
        }
        list.fusedNames.push_back(joined(model.tree, products));
        list.together.push_back(fused.parameters);
        for (const std::size_t i : members)
            absorbed[i] = i != members.front();
        list.instructions[members.front()] = std::move(fused);
    }
    std::size_t index = 0;
    std::erase_if(list.instructions, [&](const Instruction &) { return absorbed[index++]; });
}

} // namespace tpscope
