// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/forwardprogram.h"
#include "model/modelconfig.h"
#include "model/moduletree.h"

namespace tpscope {

// Names of the dimensions run, flow and cost need, read once by the family's description.
struct ModelDimensions {
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t kvHeads = 0;
    std::int64_t headDim = 0;
    std::int64_t vocab = 0;
    std::int64_t maxPositions = 0;
};

// Everything known about a model before any plan: values, no tensors. Immutable once built; safe to share.
struct ModelDescription {
    std::string modelType;            // "qwen3"
    std::string className;            // "Qwen3ForCausalLM"
    std::string baseModelPrefix;      // "model": prefix of base_model_tp_plan keys
    ModelConfig config;
    ModelDimensions dims;
    DType dtype = DType::F32;
    RopeParameters rope;
    std::map<std::string, RopeParameters> ropeByLayerType; // families whose layer types rotate differently; else empty
    std::string attention = "sdpa";   // the model's default attention implementation
    ModuleTree tree;
    std::map<std::string, ForwardProgram> programs; // by id; empty: only names are known, the flow is not
    // True when the family describes its forward; false: tree only, the outcome is then "not-checked".
    bool flowKnown() const { return !programs.empty(); }
    const ForwardProgram &program(const std::string &id) const { return programs.at(id); }

    std::int64_t parameterCount() const; // tied tensors once
};

} // namespace tpscope
