// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/modeldescription.h"

namespace tpscope {

// Which transformers version's wrappers and hooks a description is built for (REFERENCE.md section 4).
struct Upstream {
    int major = 5;
    int minor = 24;
    static Result<Upstream> parse(const std::string &text); // "5.24", "5.21.1"
    std::string text() const;
    auto operator<=>(const Upstream &) const = default;
};

// One architecture family: one file in core/arch, one line in families().
struct Family {
    std::string_view modelType;
    Result<ModelDescription> (*describe)(const ModelConfig &config, const Upstream &upstream);
};

std::span<const Family> families();
const Family *findFamily(std::string_view modelType); // nullptr: unknown

// By its family, or as a vision-language model around a text_config of one.
bool isDescribed(const ModelConfig &config);
// The description of a config: by its family, or, for an unknown model_type, an error that lists the known ones.
Result<ModelDescription> describe(const ModelConfig &config, const Upstream &upstream = {});

} // namespace tpscope
