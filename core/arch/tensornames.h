// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "model/modeldescription.h"
#include "model/safetensors.h"

namespace tpscope {

// A description of a model nobody described: modules and parameters from the checkpoint's tensor names, no programs, so
// matching, sharding and bytes can be told and the outcome is not-checked. Modules are all classes "?".
Result<ModelDescription> describeFromTensorNames(const ModelConfig &config, const Checkpoint &checkpoint);

} // namespace tpscope
