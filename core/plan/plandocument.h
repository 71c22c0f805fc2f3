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
    SourceSpan keySpan;   // with its quotes
    SourceSpan styleSpan; // with its quotes; an alias: the alias itself; length 0: nothing stands behind the key
    // It came through a YAML merge key (<<: *anchor): its text stands in another mapping. A key of the mapping's own
    // beats a merged one, as in PyYAML, so the two are no duplicates.
    bool merged = false;
};

// A plan file as written. Reading keeps duplicates (both), order and places; it judges nothing.
struct PlanDocument {
    std::string fileName;
    std::string text;
    std::optional<std::string> modelType;
    std::optional<int> tpSize;
    std::optional<int> epSize;      // ranks that share the experts
    bool expertParallel = false;    // enable_expert_parallel: without an ep_size, all of the tp ranks
    bool baseBuiltin = true;        // base: builtin | none
    bool hasTpPlan = false;         // a tp_plan mapping is there, maybe empty
    bool tpPlanIsMapping = true;    // false: neither mapping, null nor the word auto; upstream treats it as "auto"
    std::vector<PlanRule> rules;    // tp_plan, in file order, duplicates included
    std::vector<PlanRule> epRules;  // ep_plan
    std::string epPlanName = "ep_plan";
    bool bareMapping = false;       // no known top-level key: the whole document is the tp_plan
};

// Reads YAML in the project's form, a bare mapping, or DistributedConfig JSON (JSON is YAML). Text may have a BOM and
// CRLF; anchors, aliases and merge keys are resolved. Fields of DistributedConfig that say nothing about the plan
// (fsdp_size, ...) and top-level keys that begin with "x-" (places for anchors) are read over.
// Errors: BadInput with line and column for syntax, wrong top-level type, unknown or repeated top-level keys, a tp_size
// or ep_size that is no whole number from 1, invalid UTF-8, control characters, more than one document, an empty file.
Result<PlanDocument> parsePlan(const std::string &text, const std::string &fileName);
Result<PlanDocument> loadPlan(const std::string &path);

// Which of a document's rules: of tp_plan (PlanDocument::rules) or of ep_plan (epRules).
enum class PlanPart { Tp, Ep };
// The edit that gives the key of rule `index` (of the part's rules) another style, keeping quotes and comments. Other
// rules keep their style: an alias becomes a plain scalar, an anchor moves to the first alias that needs it, and a
// merged rule is overridden by one of the mapping's own.
TextEdit setStyleEdit(const PlanDocument &document, std::size_t index, const std::string &style,
                      PlanPart part = PlanPart::Tp);
// The edit that renames the key, and the one that appends "key: style" as the last rule of the part (making the part
// where there is none). Block and flow (JSON) form, quotes, indentation and line ends follow the text around.
TextEdit renameKeyEdit(const PlanDocument &document, std::size_t index, const std::string &key,
                       PlanPart part = PlanPart::Tp);
TextEdit addRuleEdit(const PlanDocument &document, const std::string &key, const std::string &style,
                     PlanPart part = PlanPart::Tp);
std::string applyEdit(const std::string &text, const TextEdit &edit);

} // namespace tpscope
