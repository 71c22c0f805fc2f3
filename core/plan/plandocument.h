// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace tpscope {

enum class RuleOrigin { File, ConfigPlan, ClassRule, DefaultEmbedding };

// One "pattern: style" pair. style is the text as written; styleIsText is false for null, numbers, lists, mappings
// (upstream calls those unknown styles too); style then holds a printable form.
struct PlanRule {
    std::string key;
    std::string style;
    bool styleIsText = true;
    bool keyIsText = true;
    RuleOrigin origin = RuleOrigin::File;
    SourceSpan keySpan;
    SourceSpan styleSpan;
};

// A plan file as written. Reading keeps duplicates (both), order and places; it judges nothing.
struct PlanDocument {
    std::string fileName;
    std::string text;
    std::optional<std::string> modelType;
    std::optional<int> tpSize;
    bool baseBuiltin = true;        // base: builtin | none
    bool hasTpPlan = false;         // a tp_plan mapping is there, maybe empty
    bool tpPlanIsMapping = true;    // neither mapping nor null: upstream treats it as "auto"
    std::vector<PlanRule> rules;    // tp_plan, in file order, duplicates included
    std::vector<PlanRule> epRules;  // ep_plan
    std::string epPlanName = "ep_plan";
};

// Reads YAML in the project's form, a bare mapping, or DistributedConfig JSON (JSON is YAML). Text may have a BOM and
// CRLF. Errors: BadInput with line and column for syntax, wrong top-level type, unknown top-level keys, invalid UTF-8.
Result<PlanDocument> parsePlan(const std::string &text, const std::string &fileName);
Result<PlanDocument> loadPlan(const std::string &path);

// The edit that gives the key of rule `index` (of document.rules) another style, keeping quotes and comments.
TextEdit setStyleEdit(const PlanDocument &document, std::size_t index, const std::string &style);
// The edit that renames the key, and the one that appends "key: style" as the last rule of tp_plan.
TextEdit renameKeyEdit(const PlanDocument &document, std::size_t index, const std::string &key);
TextEdit addRuleEdit(const PlanDocument &document, const std::string &key, const std::string &style);
std::string applyEdit(const std::string &text, const TextEdit &edit);

} // namespace tpscope
