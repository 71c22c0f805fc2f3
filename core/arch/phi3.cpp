// SPDX-License-Identifier: GPL-3.0-or-later
// Phi3ForCausalLM, transformers 5.24 models/phi3/modeling_phi3.py: one projection for q, k and v, one for gate and up.
#include "arch/phi3.h"

#include "arch/decoderblocks.h"

namespace tpscope {

Result<ModelDescription> describePhi3(const ModelConfig &config, const Upstream &upstream) {
    blocks::DecoderFacts facts;
    facts.prefix = "Phi3";
    facts.pythonFile = "modeling_phi3.py";
    const auto rope = config.rope();
    if (!rope)
        return tl::unexpected(rope.error());
    if (rope->number("partial_rotary_factor", 1.0) != 1.0)
        return fail(ErrorCode::Unsupported, "phi3 with a partial_rotary_factor other than 1 is not described",
                    Location{config.fileName()});
    if (const auto read = blocks::readOneWindow(config, 0, facts); !read)
        return tl::unexpected(read.error());
    facts.packed = facts.residualDropout = true;
    facts.normEps = 1e-5;
    return blocks::describeDecoder(config, upstream, facts);
}

} // namespace tpscope
