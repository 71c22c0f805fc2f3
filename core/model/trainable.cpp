// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/trainable.h"

#include <algorithm>
#include <fnmatch.h>

namespace tpscope {

bool trains(const std::string &parameter, const std::vector<std::string> &patterns) {
    const auto matches = [&](const std::string &pattern) {
        return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0;
    };
    return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string &pattern) {
               const bool wild = pattern.find_first_of("*?[") != std::string::npos;
               return wild ? matches(pattern) || matches(pattern + ".*") : parameter.find(pattern) != std::string::npos;
           });
}

} // namespace tpscope
