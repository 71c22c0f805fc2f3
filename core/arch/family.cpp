// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/family.h"

#include <array>
#include <cstdio>

#include "arch/cohere2.h"
#include "arch/deepseekv2.h"
#include "arch/deepseekv3.h"
#include "arch/dots1.h"
#include "arch/exaone4.h"
#include "arch/gemma2.h"
#include "arch/gemma3.h"
#include "arch/glm4.h"
#include "arch/glm4moe.h"
#include "arch/gptoss.h"
#include "arch/granite.h"
#include "arch/granitemoe.h"
#include "arch/llama.h"
#include "arch/llama4.h"
#include "arch/ministral.h"
#include "arch/ministral3.h"
#include "arch/mistral.h"
#include "arch/mistral4.h"
#include "arch/mixtral.h"
#include "arch/olmo2.h"
#include "arch/olmoe.h"
#include "arch/phi3.h"
#include "arch/qwen2.h"
#include "arch/qwen2moe.h"
#include "arch/qwen3.h"
#include "arch/qwen35.h"
#include "arch/qwen3moe.h"
#include "arch/qwen3next.h"
#include "arch/smollm3.h"
#include "arch/starcoder2.h"
#include "arch/visionlanguage.h"

namespace tpscope {
namespace {

constexpr std::array table{
    Family{"cohere2", describeCohere2},
    Family{"deepseek_v2", describeDeepseekV2},
    Family{"deepseek_v3", describeDeepseekV3},
    Family{"dots1", describeDots1},
    Family{"exaone4", describeExaone4},
    Family{"gemma2", describeGemma2},
    Family{"gemma3_text", describeGemma3Text},
    Family{"glm4", describeGlm4},
    Family{"glm4_moe", describeGlm4Moe},
    Family{"gpt_oss", describeGptOss},
    Family{"granite", describeGranite},
    Family{"granitemoe", describeGraniteMoe},
    Family{"llama", describeLlama},
    Family{"llama4_text", describeLlama4Text},
    Family{"ministral", describeMinistral},
    Family{"ministral3", describeMinistral3},
    Family{"mistral", describeMistral},
    Family{"mistral4", describeMistral4},
    Family{"mixtral", describeMixtral},
    Family{"olmo2", describeOlmo2},
    Family{"olmoe", describeOlmoe},
    Family{"phi3", describePhi3},
    Family{"qwen2", describeQwen2},
    Family{"qwen2_moe", describeQwen2Moe},
    Family{"qwen3", describeQwen3},
    Family{"qwen3_5_text", describeQwen35Text},
    Family{"qwen3_moe", describeQwen3Moe},
    Family{"qwen3_next", describeQwen3Next},
    Family{"smollm3", describeSmolLm3},
    Family{"starcoder2", describeStarcoder2},
};

} // namespace

std::span<const Family> families() { return table; }

const Family *findFamily(std::string_view modelType) {
    for (const Family &family : table)
        if (family.modelType == modelType)
            return &family;
    return nullptr;
}

bool isDescribed(const ModelConfig &config) {
    return findFamily(config.modelType()) != nullptr || hasDescribedText(config);
}

Result<ModelDescription> describe(const ModelConfig &config, const Upstream &upstream) {
    if (const Family *family = findFamily(config.modelType()))
        return family->describe(config, upstream);
    if (hasDescribedText(config))
        return describeTextBackbone(config, upstream);
    std::string known;
    for (const Family &family : table)
        known += (known.empty() ? "" : ", ") + std::string(family.modelType);
    const std::string found =
        config.modelType().empty()
            ? "key \"model_type\" is missing"
            : "model_type \"" + config.modelType() +
                  "\" is not described; with its weights beside it, it is shown by tensor names, and `tpscope verify "
                  "--backend transformers --tiny --model " + config.fileName() + "` runs a tiny twin of it";
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
