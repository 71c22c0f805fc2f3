// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "arch/family.h"

namespace tpscope {

// Whether a config's text_config is of a described family: then the text backbone can be described where the real class
// keeps it. The vision tower and its projector are not: no modules, no parameters.
bool hasDescribedText(const ModelConfig &config);
// The text backbone of a vision-language model. Errors: BadInput of the text_config, named "text_config" in messages.
Result<ModelDescription> describeTextBackbone(const ModelConfig &config, const Upstream &upstream);

} // namespace tpscope
