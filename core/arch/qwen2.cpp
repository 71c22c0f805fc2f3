// SPDX-License-Identifier: GPL-3.0-or-later
// Qwen2ForCausalLM, transformers 5.24 models/qwen2/modeling_qwen2.py: q, k and v with a bias, masks by layer_types.
#include "arch/qwen2.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeQwen2(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Qwen2";
    facts.pythonFile = "modeling_qwen2.py";
    facts.attentionBias = true;
    if (const auto read = blocks::readSwitchedWindow(config, facts); !read)
        return tl::unexpected(read.error());
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
