// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/forwardprogram.h"

namespace tpscope {

std::string_view name(OpKind kind) {
    switch (kind) {
    case OpKind::Embedding: return "embedding";
    case OpKind::Linear: return "linear";
    case OpKind::RmsNorm: return "rms_norm";
    case OpKind::Activation: return "activation";
    case OpKind::Multiply: return "multiply";
    case OpKind::Add: return "add";
    case OpKind::ViewHeads: return "view_heads";
    case OpKind::Transpose: return "transpose";
    case OpKind::RopeTable: return "rope_table";
    case OpKind::Rope: return "rope";
    case OpKind::CausalMask: return "causal_mask";
    case OpKind::CacheUpdate: return "cache_update";
    case OpKind::Attend: return "attend";
    case OpKind::MergeHeads: return "merge_heads";
    case OpKind::SliceTokens: return "slice_tokens";
    case OpKind::Select: return "select";
    }
    return "?";
}

} // namespace tpscope
