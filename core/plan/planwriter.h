// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "plan/resolvedplan.h"

// Writers of a plan: our YAML, DistributedConfig JSON, a Python script. Each text reads back as the same rules.
namespace tpscope {

// What is written: rules in order, and how they meet the model's built-in plan.
struct PlanToWrite {
    std::string modelType;       // "": not said
    int tpSize = 1;
    int epSize = 1;              // above 1: written
    bool automatic = false;      // the built-in plan, no rules of one's own: tp_plan "auto"
    bool baseBuiltin = true;     // rules are merged over the built-in plan; false: they are the whole plan
    std::vector<PlanRule> rules; // tp_plan
    std::vector<PlanRule> epRules;
    // base: none only. What upstream, which always merges, must be told so that nothing else applies.
    std::vector<PlanRule> cancels;
};

// The rules the user wrote, merged over the built-in plan when read: the shortest form.
PlanToWrite ownRules(const ModelDescription &model, const PlanChoice &choice, const ResolvedPlan &plan);
// Every rule in force, inherited ones included. It needs no built-in plan to be understood.
PlanToWrite effectiveRules(const ModelDescription &model, const ResolvedPlan &plan);

// The project's form. parsePlan reads it back to the same rules.
std::string toYaml(const PlanToWrite &plan);
// {"tp_size", "tp_plan", "ep_plan"?} as DistributedConfig.from_dict takes it.
std::string toJson(const PlanToWrite &plan);

struct PythonOptions {
    std::string model;                   // hub id or folder: the default of the script's first argument
    std::string fileName = "run_plan.py"; // named in the torchrun line
};
// The shortest script that loads the model with the plan under transformers 5.24 and generates a few tokens, with its
// torchrun line.
std::string toPython(const PlanToWrite &plan, const PythonOptions &options);

} // namespace tpscope
