// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "arch/family.h"
#include "model/modeldescription.h"

// Building blocks that decoder-only families share: plain torch modules, transformers' decorator wrappers (per
// version), statement shorthands. A family file picks blocks and writes its own forward programs.
namespace tpscope::blocks {

// --- statements -----------------------------------------------------------------------------------------------------
Statement op(OpKind kind, std::vector<Var> in, std::vector<Var> out, std::string label = {});
Statement op(Operation operation, std::string label = {});
Statement callModule(std::string path, std::vector<Var> args, std::vector<Var> out, std::string label = {});
Statement callFunction(std::string program, std::vector<Var> args, std::vector<Var> out, std::string label = {});

// Where a class puts deprecate_kwarg among its forward's decorators (since 5.24; the order differs from class to class).
enum class DecoratorPlace { Innermost, Outermost };

// --- modules (each also registers its program once) -------------------------------------------------------------------
struct Builder {
    ModelDescription model;
    Upstream upstream;
    std::string prefix;     // "Qwen3": class names and program ids start with it
    std::string pythonFile; // "modeling_qwen3.py"
    double initStd = 0.02;

    Module &at(ModuleIndex index) { return model.tree.modules[index.value]; }
    void define(ForwardProgram program); // no effect when the id exists

    ModuleIndex linear(ModuleIndex parent, const std::string &name, std::int64_t in, std::int64_t out, bool bias);
    ModuleIndex embedding(ModuleIndex parent, const std::string &name, std::int64_t rows, std::int64_t columns);
    ModuleIndex rmsNorm(ModuleIndex parent, const std::string &name, std::int64_t size, double eps);
    ModuleIndex activation(ModuleIndex parent, const std::string &name, const std::string &function);
    ModuleIndex rotary(ModuleIndex parent, const std::string &name);
    ModuleIndex gatedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden, std::int64_t inner,
                         bool bias, const std::string &function);

    // Wraps `inner` (a program id with these inputs and outputs) in the frame of the decorator `decorator` and returns the
    // new id, "<inner>/<decorator>". All functions a decorator wraps share its wrapper's code object.
    std::string wrap(const std::string &inner, const std::string &decorator, const std::string &frame, bool inTry);
    // The frames that decorators put in front of functions of transformers, by version; the outermost id is returned.
    // Source: transformers 5.21, 5.22, 5.23, 5.24: deprecate_kwarg ("past_key_values", new_name="cache") since 5.24.
    std::string causalLmForward(const std::string &inner, DecoratorPlace deprecateKwargAt);
    std::string baseModelForward(const std::string &inner, DecoratorPlace deprecateKwargAt);
    std::string attentionForward(const std::string &inner);
    std::string maskFunction(const std::string &inner);
    // Sets callProgram and forwardProgram: up to 5.22 GradientCheckpointingLayer has a __call__ of its own, since 5.23
    // it wraps forward (forward_with_checkpointing), behind nn.Module._call_impl and its hooks.
    void decoderLayerForward(Module &layer, const std::string &inner);

private:
    std::string deprecateKwarg(const std::string &inner);
};

// Reads what every decoder-only config has into model.dims, dtype, rope. Errors name the key.
Result<void> readDimensions(ModelDescription &model);

// Facts in which llama-like pre-norm decoders differ.
struct DecoderFacts {
    std::string prefix;     // class name prefix
    std::string pythonFile;
    bool qkNorm = false;    // per-head q_norm and k_norm right after each projection
    bool attentionBias = false; // of q, k, v
    bool outputBias = false;    // of o_proj
    bool mlpBias = false;
    std::vector<std::string> layerTypes; // one a layer; empty: all full_attention and no mapping of masks
    std::int64_t slidingWindow = 0;      // positions, for sliding_attention layers; 0 none
    DecoratorPlace modelDeprecateKwarg = DecoratorPlace::Innermost;    // of the base model's forward
    DecoratorPlace causalLmDeprecateKwarg = DecoratorPlace::Outermost; // of the causal model's
};

// "sliding_window" of the file; 0 for null, fallback where the key is missing.
Result<std::int64_t> readSlidingWindow(const ModelConfig &config, std::int64_t fallback);
// slidingWindow and layerTypes as Qwen2Config and Qwen3Config.__post_init__ fill them in: layer_types of the file, else
// sliding from max_window_layers on where use_sliding_window switches it on.
Result<void> readSwitchedWindow(const ModelConfig &config, DecoderFacts &facts);
// As many layers as "num_hidden_layers" says, 1 to 100000.
Result<std::int64_t> readLayerCount(const ModelConfig &config);

// The whole description of a llama-like pre-norm decoder.
Result<ModelDescription> describePreNormDecoder(const ModelConfig &config, const Upstream &upstream,
                                                const DecoderFacts &facts);

} // namespace tpscope::blocks
