// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "model/modeldescription.h"
#include "plan/planwriter.h"

namespace tpscope {

// A script of plain PyTorch and transformers (5.21 on) that shows without TPScope what a plan does: under torchrun on the
// plan's ranks it compares logits and every parameter's gradient with one process, and counts the graphs and breaks that
// torch.compile makes. It holds the model's config with few layers, and random weights by seed; a folder given as argument
// is taken instead. fileName: named in the torchrun line.
std::string toRepro(const ModelDescription &model, const PlanToWrite &plan, const std::string &fileName);

} // namespace tpscope
