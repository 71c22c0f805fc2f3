// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <map>
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
// torch.chunk(of, dim=-1)[chunk] of a variable.
Statement chunkOfLast(const Var &in, std::int64_t chunk, std::int64_t of, const Var &out);
// The update of the cache by two tensors of self's layer, with what Dynamo guards on there.
Statement cacheUpdate(const Var &first, const Var &second, std::vector<Var> out, std::string label);
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
    double normOffset = 0.0;  // the norms multiply by it plus their weight (Gemma: 1)

    Module &at(ModuleIndex index) { return model.tree.modules[index.value]; }
    void define(ForwardProgram program); // no effect when the id exists

    ModuleIndex linear(ModuleIndex parent, const std::string &name, std::int64_t in, std::int64_t out, bool bias);
    ModuleIndex embedding(ModuleIndex parent, const std::string &name, std::int64_t rows, std::int64_t columns);
    ModuleIndex rmsNorm(ModuleIndex parent, const std::string &name, std::int64_t size, double eps);
    ModuleIndex activation(ModuleIndex parent, const std::string &name, const std::string &function);
    // byLayerType: its forward takes the layer type and picks that type's frequencies.
    ModuleIndex rotary(ModuleIndex parent, const std::string &name, bool byLayerType = false);
    ModuleIndex dropout(ModuleIndex parent, const std::string &name);
    ModuleIndex gatedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden, std::int64_t inner,
                         bool bias, const std::string &function);

    ModuleIndex packedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden, std::int64_t inner,
                          const std::string &function);
    // Makes an embedding one that multiplies by a factor, of a class of transformers' own.
    void scaleEmbedding(ModuleIndex embedding, const std::string &className, double factor);

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

enum class QkNorm {
    None,
    PerHead,        // over each head, right after its view into heads (Qwen3)
    Projection,     // over the whole projection, before the view (OLMo 2)
    AfterTranspose, // over each head, when q, k and v are all transposed (Gemma 3)
};

// Facts in which llama-like decoders differ.
struct DecoderFacts {
    std::string prefix;     // class name prefix
    std::string pythonFile;
    QkNorm qkNorm = QkNorm::None;
    bool packed = false;    // one qkv_proj, one gate_up_proj
    bool residualDropout = false; // resid_attn_dropout, resid_mlp_dropout
    // The norms of a layer, by place; empty: none.
    std::string normBeforeAttention = "input_layernorm";
    std::string normAfterAttention = {};
    std::string normBeforeMlp = "post_attention_layernorm";
    std::string normAfterMlp = {};
    double normOffset = 0.0;
    double normEps = 1e-6;        // of a config without rms_norm_eps
    double embeddingScale = 0.0;  // 0: embeddings are not scaled
    double attentionScale = 0.0;  // 0: head_dim ** -0.5
    bool sinks = false;           // one more score a head, a parameter of self_attn
    bool halfTables = false;      // cos and sin of half of head_dim
    std::string attention = "sdpa"; // the default implementation
    std::string activationKey = "hidden_act";
    std::string activation = "silu"; // of a config without that key
    bool tied = false;               // of a config without tie_word_embeddings
    std::map<std::string, double> ropeThetas = {}; // by layer type, of a config that names none
    bool ropeByLayerType = false;    // the rotary embedding is called once a layer type
    std::int64_t headDim = 0; // of rotary tables, where the config's head_dim is not meant; 0: head_dim
    // Adds self_attn where the family has another one there; empty: llama's.
    std::function<void(Builder &b, ModuleIndex layer, std::int64_t layerIndex)> addAttention = {};
    // Adds the mlp of a layer where the family has another one there than gate, up and down; false: it has not.
    std::function<bool(Builder &b, ModuleIndex layer, std::int64_t layerIndex)> addMlp = {};
    std::vector<std::string> masks = {}; // types of masks that are built, in order; empty: those of layerTypes
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
// slidingWindow and layerTypes of families where all layers slide unless "sliding_window" is null or `window` says 0.
Result<void> readOneWindow(const ModelConfig &config, std::int64_t fallback, DecoderFacts &facts);
// slidingWindow and layerTypes as Qwen2Config and Qwen3Config.__post_init__ fill them in: layer_types of the file, else
// sliding from max_window_layers on where use_sliding_window switches it on.
Result<void> readSwitchedWindow(const ModelConfig &config, DecoderFacts &facts);
// slidingWindow, layerTypes and both masks of families that build both: layer_types of the file; else every
// sliding_window_pattern-th layer (fallback: each `pattern`-th) attends to all.
Result<void> readAlternatingWindow(const ModelConfig &config, std::int64_t fallback, std::int64_t pattern,
                                   DecoderFacts &facts);
// The first of these keys that the file has; at least 1. Errors name the key.
Result<std::int64_t> readCount(const ModelConfig &config, const std::vector<std::string> &keys, std::int64_t fallback);
// As many layers as "num_hidden_layers" says, 1 to 100000.
Result<std::int64_t> readLayerCount(const ModelConfig &config);

// A mixture of experts behind a softmax router.
struct MoeFacts {
    std::int64_t experts = 0;
    std::int64_t chosen = 1;     // experts a token
    std::int64_t inner = 0;      // width of one expert
    bool sumsToOne = false;      // the scores of the chosen ones
    std::string activation = "silu";
    std::string blockClass, routerClass, expertsClass;
    // Checkpoint names behind "model.layers.N.": the router's weight; gate, up and down of expert "{}".
    std::string storedRouter, storedGate, storedUp, storedDown;
    std::string routerName = "gate";
    bool returnsScores = false;  // the block returns a tuple
    // DeepSeek: the choice is limited to groups of experts; a dense MLP of this width beside the experts, 0 none.
    std::int64_t groups = 0, chosenGroups = 0;
    double scaling = 1.0;
    std::int64_t shared = 0;
    // gpt_oss: biases, weights stored [E, in, out] with gate and up by turns, a softmax of the chosen scores alone.
    bool pairs = false;
    double alpha = 1.0, limit = 0.0;
};
// `name` of a layer: gate (the router) and experts, with their programs.
void addSparseMoe(Builder &b, ModuleIndex layer, const std::string &name, const MoeFacts &facts);

// self_attn of a layer, with its programs.
void addSelfAttention(Builder &b, ModuleIndex layer, const DecoderFacts &facts, std::int64_t layerIndex, double eps);

// The whole description of a llama-like decoder.
Result<ModelDescription> describeDecoder(const ModelConfig &config, const Upstream &upstream,
                                                const DecoderFacts &facts);

} // namespace tpscope::blocks
