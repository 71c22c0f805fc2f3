// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/family.h"

#include <array>
#include <cstdio>

#include "arch/deepseekv3.h"
#include "arch/gemma3.h"
#include "arch/gptoss.h"
#include "arch/llama.h"
#include "arch/mistral.h"
#include "arch/mixtral.h"
#include "arch/olmo2.h"
#include "arch/phi3.h"
#include "arch/qwen2.h"
#include "arch/qwen3.h"
#include "arch/qwen3moe.h"

namespace tpscope {
namespace {

constexpr std::array table{
    Family{"deepseek_v3", describeDeepseekV3},
    Family{"gemma3_text", describeGemma3Text},
    Family{"gpt_oss", describeGptOss},
    Family{"llama", describeLlama},
    Family{"mistral", describeMistral},
    Family{"mixtral", describeMixtral},
    Family{"olmo2", describeOlmo2},
    Family{"phi3", describePhi3},
    Family{"qwen2", describeQwen2},
    Family{"qwen3", describeQwen3},
    Family{"qwen3_moe", describeQwen3Moe},
};

} // namespace

std::span<const Family> families() { return table; }

const Family *findFamily(std::string_view modelType) {
    for (const Family &family : table)
        if (family.modelType == modelType)
            return &family;
    return nullptr;
}

Result<ModelDescription> describe(const ModelConfig &config, const Upstream &upstream) {
    if (const Family *family = findFamily(config.modelType()))
        return family->describe(config, upstream);
    std::string known;
    for (const Family &family : table)
        known += (known.empty() ? "" : ", ") + std::string(family.modelType);
    const std::string found = config.modelType().empty() ? "key \"model_type\" is missing"
                                                         : "model_type \"" + config.modelType() + "\" is not described";
    return fail(ErrorCode::Unsupported, found + "; described families: " + known, Location{config.fileName()});
}

Result<Upstream> Upstream::parse(const std::string &text) {
    Upstream version;
    int patch = 0;
    char rest = 0;
    const int read = std::sscanf(text.c_str(), "%d.%d.%d%c", &version.major, &version.minor, &patch, &rest);
    if (read < 2 || read > 3 || version.major != 5 || version.minor < 21 || version.minor > 24)
        return fail(ErrorCode::Usage, "--upstream \"" + text + "\": expected a transformers version from 5.21 to 5.24");
    return version;
}

std::string Upstream::text() const { return std::to_string(major) + "." + std::to_string(minor); }

} // namespace tpscope
