// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/catalogue.h"

// What differs between two catalogues, in the rules as `auto` applies them.
namespace tpscope::cli {

using Catalogue = std::map<std::string, CatalogueEntry>; // by model type

// The catalogue that ships, or that of a folder.
// Errors: NotFound (no folder, or no plan in it), BadInput with the line.
Result<Catalogue> shippedCatalogue();
Result<Catalogue> readCatalogue(const std::filesystem::path &folder);

struct RuleChange {
    std::string plan; // "tp_plan", "ep_plan"
    std::string key;  // full
    std::string before, after; // styles; "": no such rule
};

struct FamilyChange {
    enum class Kind { Added, Removed, Changed };
    std::string modelType;
    Kind kind = Kind::Changed;
    std::vector<RuleChange> rules;
};

// Families that differ, by model type.
std::vector<FamilyChange> differences(const Catalogue &before, const Catalogue &after);

nlohmann::json toJson(const std::vector<FamilyChange> &changes, const Catalogue &before, const Catalogue &after);
std::string toText(const std::vector<FamilyChange> &changes, const Catalogue &before, const Catalogue &after);

} // namespace tpscope::cli
