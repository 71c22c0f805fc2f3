// SPDX-License-Identifier: GPL-3.0-or-later
// MistralForCausalLM, transformers 5.24 models/mistral/modeling_mistral.py: one mask for all layers, a sliding one unless
// sliding_window is null.
#include "arch/mistral.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeMistral(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Mistral";
    facts.pythonFile = "modeling_mistral.py";
    if (const auto read = blocks::readOneWindow(config, 4096, facts); !read)
        return tl::unexpected(read.error());
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
