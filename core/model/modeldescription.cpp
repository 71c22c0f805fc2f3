// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/modeldescription.h"

#include <algorithm>

namespace tpscope {

std::int64_t ModelDescription::parameterCount() const {
    std::int64_t count = 0;
    for (const Module &module : tree.modules)
        for (const Parameter &parameter : module.parameters) {
            const std::string full = module.name.empty() ? parameter.name : module.name + "." + parameter.name;
            if (std::ranges::none_of(tree.ties, [&](const Tie &tie) { return tie.target == full; }))
                count += elementCount(parameter.shape);
        }
    return count;
}

} // namespace tpscope
