// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "session/workspace.h"

namespace tpscope {

// A table of text cells, headers first; what the exporters of a plan lay out in their own ways.
struct ReportTable {
    std::string title;
    std::string note; // one sentence under the title; may be empty
    std::vector<std::string> headers;
    std::vector<std::vector<std::string>> rows;
};

// What a report on a plan says, before any format.
struct PlanFacts {
    std::string title;   // "Qwen3ForCausalLM, tp 2"
    std::string result;  // "outcome ok - valid tp sizes 1 2 - 99.1 % sharded - predicted breaks 11 -> 0"
    std::string basis;   // "by rule: transformers 5.24, sdpa, float32"
    std::vector<ReportTable> tables;
};

PlanFacts planFacts(const PlanAnalysis &analysis);

// "Shard(0)", "StridedShard(1)", "Replicate".
std::string placementText(const Placement &placement);

} // namespace tpscope
