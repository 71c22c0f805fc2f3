// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/resolvedplan.h"
#include "shard/shardlayout.h"

namespace tpscope {

// A ForwardProgram with variables as numbers and try blocks unfolded.
struct FlowStep {
    enum class Kind { Operation, Module, Element, Function, Forward, Loop };
    Kind kind = Kind::Operation;
    const Operation *operation = nullptr;
    std::vector<int> in;  // -1: None
    std::vector<int> out;
    std::string_view path;  // of the module called, or of the list looped over
    std::string_view label;
    int program = -1;       // of the function called
    std::vector<FlowStep> body; // of the loop
};

struct FlowProgram {
    int variables = 0;
    std::vector<int> inputs;
    std::vector<int> outputs;
    std::vector<FlowStep> body;
};

// A module's own parameter as the plan leaves it. A tied target is its source's tensor.
struct FlowParameter {
    std::string_view name; // local
    const Shape *shape = nullptr;
    int id = -1;           // of the tensor
    Placement placement;
    int groups = 1;        // that the ranks' shards are cut in
    bool distributed() const { return placement.kind != PlacementKind::PlainTensor; }
};

// What the layout flow needs of a model and a plan, looked up once; independent of the number of ranks.
class FlowIndex {
public:
    FlowIndex(const ModelDescription &model, const ResolvedPlan &plan);
    FlowIndex(const FlowIndex &) = delete;
    FlowIndex &operator=(const FlowIndex &) = delete;

    const ModelDescription &model() const { return m_model; }
    const ResolvedPlan &plan() const { return m_plan; }
    const Module &module(ModuleIndex index) const { return m_model.tree.at(index); }
    const FlowProgram &program(int id) const { return m_programs[static_cast<std::size_t>(id)]; }
    int callProgram(ModuleIndex index) const { return m_modules[index.value].call; }       // -1 none
    int forwardProgram(ModuleIndex index) const { return m_modules[index.value].forward; } // -1 none
    const ParallelStyle *style(ModuleIndex index) const { return m_modules[index.value].style; }
    bool dealsExperts(ModuleIndex index) const { return m_modules[index.value].dealsExperts; } // ResolvedPlan's
    std::optional<ModuleIndex> child(ModuleIndex index, std::string_view path) const;
    const FlowParameter *parameter(ModuleIndex index, std::string_view name) const; // nullptr: none
    const std::vector<FlowParameter> &parameters(ModuleIndex index) const { return m_modules[index.value].parameters; }
    // Equal for modules that look and are treated alike (the layers of one kind).
    std::uint64_t signature(ModuleIndex index) const { return m_modules[index.value].signature; }

    // Tensors, tied ones once.
    const std::vector<std::string> &parameterNames() const { return m_parameterNames; }

private:
    struct ModuleEntry {
        int call = -1;
        int forward = -1;
        const ParallelStyle *style = nullptr;
        bool dealsExperts = false;
        std::vector<FlowParameter> parameters;
        std::uint64_t signature = 0;
    };
    int programId(const std::string &id);
    void addParameters(ModuleIndex index);
    void tieParameters();
    void sign(ModuleIndex index);

    const ModelDescription &m_model;
    const ResolvedPlan &m_plan;
    std::vector<FlowProgram> m_programs;
    std::vector<std::string> m_programNames;
    std::vector<ModuleEntry> m_modules;
    std::vector<std::string> m_parameterNames;
};

} // namespace tpscope
