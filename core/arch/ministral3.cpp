// SPDX-License-Identifier: GPL-3.0-or-later
// Ministral3ForCausalLM, transformers 5.24 models/ministral3/modeling_ministral3.py: Mistral whose queries are scaled by
// their positions.
#include "arch/ministral3.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describeMinistral3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Ministral3";
    facts.pythonFile = "modeling_ministral3.py";
    if (const auto read = blocks::readOneWindow(config, 0, facts); !read)
        return tl::unexpected(read.error());
    facts.positionScale = true;
    facts.defaultHeadDim = 128;
    facts.normEps = 1e-5;
    facts.ropeTheta = 1e6;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
