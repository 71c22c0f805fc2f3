// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/prompts.h"

#include <algorithm>

namespace tpscope {

PromptBatch PromptBatch::of(const std::vector<std::vector<std::int64_t>> &prompts) {
    PromptBatch batch;
    batch.rows = static_cast<std::int64_t>(prompts.size());
    bool uneven = false;
    for (const auto &prompt : prompts)
        batch.tokens = std::max(batch.tokens, static_cast<std::int64_t>(prompt.size()));
    for (const auto &prompt : prompts) {
        batch.padding.push_back(batch.tokens - static_cast<std::int64_t>(prompt.size()));
        uneven = uneven || batch.padding.back() > 0;
        batch.ids.insert(batch.ids.end(), static_cast<std::size_t>(batch.padding.back()), 0);
        batch.ids.insert(batch.ids.end(), prompt.begin(), prompt.end());
    }
    if (!uneven)
        batch.padding.clear();
    return batch;
}

void describePrompts(const RunConfig &config, LintOptions &options) {
    if (config.inputIds.empty())
        return;
    const PromptBatch batch = PromptBatch::of(config.inputIds);
    options.promptTokens = batch.tokens;
    options.paddedPrompts = !batch.padding.empty();
}

Result<void> checkPrompts(const RunConfig &config, std::int64_t vocabulary) {
    if (config.inputIds.empty())
        return fail(ErrorCode::Usage, "a run needs a prompt of at least one token id");
    for (const auto &prompt : config.inputIds) {
        if (prompt.empty())
            return fail(ErrorCode::Usage, "a prompt of the batch is empty; each needs at least one token id");
        for (const std::int64_t id : prompt)
            if (id < 0 || (vocabulary > 0 && id >= vocabulary))
                return fail(ErrorCode::Usage, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                                  std::to_string(vocabulary));
    }
    return {};
}

} // namespace tpscope
