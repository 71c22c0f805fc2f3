// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/resolvedplan.h"

// The catalogue, plans/<model_type>.yaml: the built-in plan of each family of a transformers version, as
// `tpscope plans import` writes it. Keys of a file, all but the first two optional:
//   model_type, upstream, class            what the plan belongs to, and the model class it was read from
//   base_model_prefix                      what keys of base_model_* lack; "": the class is its own base model
//   default_embedding                      false: the base model has no embed_tokens, so upstream adds no rule for it
//   class_tp_plan                          the class's own rules
//   base_model_tp_plan, base_model_ep_plan of the config
//   sub_models                             full name: model type; whose rules upstream merges into the model's, as the
//                                          default configuration has them
//   sub_model_configs                      full name: dotted key of a config.json, whose model_type chooses that one
//   sub_model_tp_plan, sub_model_ep_plan   those rules, full names, with the rule for the sub-model's embedding
// Source: transformers 5.24 distributed/mixin.py init_parallel_plans.
namespace tpscope {

struct CatalogueEntry {
    BuiltinPlan plan;       // classRules: with those of sub-models
    std::string modelClass; // "": the file does not say
    bool defaultEmbedding = true;
    std::vector<std::pair<std::string, std::string>> subModels;       // full name, model type
    std::vector<std::pair<std::string, std::string>> subModelConfigs; // full name, key of a config.json
};

// Errors: BadInput with line and column.
Result<CatalogueEntry> parseCatalogueEntry(const std::string &text, const std::string &fileName);
// Of the catalogue that ships. Errors: those of loadBuiltinPlan().
Result<CatalogueEntry> loadCatalogueEntry(const std::string &modelType);

// The entry of a config.json's model type, with the rules of the sub-models that it names, where those are others than
// the default ones. A plan in the file itself is not looked at. Errors: those of loadBuiltinPlan().
Result<CatalogueEntry> catalogueEntryOf(const ModelConfig &config);

// Full key to style, as `auto` applies them to a model of the family.
using StyleByKey = std::map<std::string, std::string>;
StyleByKey appliedTpRules(const CatalogueEntry &entry);
StyleByKey appliedEpRules(const CatalogueEntry &entry);

} // namespace tpscope
