// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "arch/family.h"

namespace tpscope {

Result<ModelDescription> describeMistral4(const ModelConfig &config, const Upstream &upstream);

} // namespace tpscope
