// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "plan/plandocument.h"
#include "plan/yamltree.h"

// From YAML nodes to rules: shared by the readers of plan files and of the catalogue.
namespace tpscope {

// One rule a pair of the mapping, in order, duplicates included.
std::vector<PlanRule> readRules(const YamlTree &tree, YamlIndex mapping, RuleOrigin origin);
// What stands there, for a message: "nothing", "a list", "a mapping", "\"3\"".
std::string describeKind(const YamlTree &tree, YamlIndex index);

} // namespace tpscope
