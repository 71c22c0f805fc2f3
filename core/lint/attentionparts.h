// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "lint/flowindex.h"

namespace tpscope {

// The modules around an attention operation, found in its forward program.
struct AttentionParts {
    std::vector<ModuleIndex> projections; // whose outputs are viewed as heads
    std::vector<ModuleIndex> norms;       // that work on heads
    std::vector<ModuleIndex> outputs;     // that take the merged heads
    bool found() const { return !projections.empty() && !outputs.empty(); }
};

// attention: the module itself, or one inside it.
AttentionParts attentionParts(const FlowIndex &index, ModuleIndex attention);

} // namespace tpscope
