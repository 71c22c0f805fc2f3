// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "arch/configreads.h"
#include "arch/family.h"
#include "model/modeldescription.h"

// Building blocks that decoder-only families share: plain torch modules, transformers' decorator wrappers (per
// version), statement shorthands. A family file picks blocks and writes its own forward programs.
namespace tpscope::blocks {

// --- statements -----------------------------------------------------------------------------------------------------
Statement op(OpKind kind, std::vector<Var> in, std::vector<Var> out, std::string label = {});
Statement op(Operation operation, std::string label = {});
// Positions [begin, end) of a variable's last dimension. whole > 0: a part of torch.split, which takes just this width.
Statement sliceOfLast(const Var &in, std::int64_t begin, std::int64_t end, const Var &out, std::int64_t whole = 0);
// A view into heads of headDim channels; heads > 0: of just so many.
Statement viewHeads(const Var &in, std::int64_t headDim, const Var &out, std::int64_t heads = 0);
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
    // torch's own, with a bias (className empty), or a class of transformers without one.
    ModuleIndex layerNorm(ModuleIndex parent, const std::string &name, std::int64_t size, double eps,
                          const std::string &className = {});
    ModuleIndex activation(ModuleIndex parent, const std::string &name, const std::string &function);
    // byLayerType: its forward takes the layer type and picks that type's frequencies.
    ModuleIndex rotary(ModuleIndex parent, const std::string &name, bool byLayerType = false);
    ModuleIndex dropout(ModuleIndex parent, const std::string &name);
    ModuleIndex gatedMlp(ModuleIndex parent, const std::string &name, std::int64_t hidden, std::int64_t inner,
                         bool bias, const std::string &function, const std::string &activationName = "act_fn");

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
// headDim: of a config without the key; 0: hidden / heads. ropeTheta likewise.
Result<void> readDimensions(ModelDescription &model, std::int64_t headDim = 0, double ropeTheta = 10000.0);

enum class LayerNormKind {
    Rms,     // a class of the family's own
    Torch,   // torch.nn.LayerNorm
    Centred, // a LayerNorm of the family's own, without bias (Cohere)
};

enum class QkNorm {
    None,
    PerHead,        // over each head, right after its view into heads (Qwen3)
    Projection,     // over the whole projection, before the view (OLMo 2)
    AfterViews,     // over each head, when q, k and v are all viewed into heads (GLM 4.5)
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
    LayerNormKind norm = LayerNormKind::Rms; // of layers and the last one
    std::string normEpsKey = "rms_norm_eps";
    double normEps = 1e-6;        // of a config without that key
    double embeddingScale = 0.0;  // 0: embeddings are not scaled; by a class of embedding of its own
    std::string scaledEmbedding = "TextScaledWordEmbedding"; // that class, behind the prefix
    double embeddingFactor = 0.0; // 0 none: a factor in the model's own forward (Granite)
    double residualFactor = 0.0;  // 0 none: of what a layer adds to the residual
    double logitsFactor = 0.0;    // 0 none
    double logitsSoftcap = 0.0;   // 0 none
    double attentionScale = 0.0;  // 0: head_dim ** -0.5
    double attentionSoftcap = 0.0; // 0 none: of the scores
    bool positionScale = false;   // queries times a factor of their positions, after rope
    double clip = 0.0;            // 0 none: q, k and v are clamped before they are viewed
    bool parallel = false;        // attention and mlp of a layer read the same norm's output (Cohere)
    std::string mlpName = "mlp";
    std::string basePrefix = "model"; // what keys of base_model_tp_plan lack; "": the causal class is its own base
    std::string modelName = "Model"; // behind the prefix
    std::string causalClass = {}; // empty: prefix + "ForCausalLM"
    std::map<std::string, std::string> attentionNames = {}; // by layer type, where it is not self_attn
    bool masksInLoop = false; // built in a Python loop over the set of layer types
    bool sinks = false;           // one more score a head, a parameter of self_attn
    bool halfTables = false;      // cos and sin of half of head_dim
    std::string attention = "sdpa"; // the default implementation
    std::string activationKey = "hidden_act";
    std::string activation = "silu"; // of a config without that key
    bool tied = false;               // of a config without tie_word_embeddings
    std::map<std::string, double> ropeThetas = {}; // by layer type, of a config that names none
    bool ropeByLayerType = false;    // the rotary embedding is called once a layer type
    std::int64_t headDim = 0; // of rotary tables, where the config's head_dim is not meant; 0: head_dim
    std::int64_t defaultHeadDim = 0; // of a config without head_dim; 0: hidden / heads
    double ropeTheta = 10000.0;      // of a config that names none
    std::int64_t rotary = 0;  // the first channels of a head that rotate; 0: all
    bool interleave = false;  // neighbours rotate together
    std::string ropeIf = {};  // bool of self_attn: layers without it do not rotate; one a layer in ropeLayers
    std::vector<bool> ropeLayers = {};
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
// layer_types of the file, each one of `allowed`; none: the file has no such key. Errors name the key.
Result<std::vector<std::string>> readLayerTypes(const ModelConfig &config, std::int64_t layers,
                                                const std::vector<std::string> &allowed);
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
    // A softmax of the chosen scores alone, with experts of the usual form (Granite MoE).
    bool softmaxChosen = false;
    // A softmax whose chosen scores are multiplied by `scaling` (DeepSeek V2).
    bool scaledSoftmax = false;
    std::int64_t groupBest = 0; // > 0: a softmax limited to groups, by so many of a group's largest scores
    std::string sharedName = "shared_experts";
    bool sharedBias = false;
    bool sharedGate = false; // the shared MLP's output is multiplied by a sigmoid of one channel (shared_expert_gate)
    bool routerF32 = false;  // its weight stays float32 whatever the model's dtype
    // Checkpoints hold gate_up_proj and down_proj stacked under other names ("input_linear.weight"); empty: by expert.
    std::string storedStack = {}, storedDownStack = {};
};
// Names of block, router and experts, and of what checkpoints hold, as Qwen's and DeepSeek's families have them.
void nameExperts(MoeFacts &moe, const std::string &prefix, const std::string &block, const std::string &router);
// Defaults of families whose router chooses within groups.
struct GroupedExperts {
    std::int64_t experts = 256, chosen = 8, inner = 2048, shared = 1, groups = 8, chosenGroups = 4;
    double scaling = 2.5;
};
MoeFacts readGroupedExperts(ConfigReads &reads, const GroupedExperts &defaults, const std::string &prefix);
// embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling.
void readFactors(ConfigReads &reads, DecoderFacts &facts);
// Channels of a head that rotate: head_dim (defaultHeadDim; 0: hidden / heads) times partial_rotary_factor.
std::int64_t readRotary(const ModelConfig &config, ConfigReads &reads, std::int64_t defaultHeadDim, double defaultShare);
// `name` of a layer: gate (the router) and experts, with their programs.
void addSparseMoe(Builder &b, ModuleIndex layer, const std::string &name, const MoeFacts &facts);

// q and k with the first channels of each head rotated, if not all, by cos and sin; gives "q" and "k".
void rotate(Body &body, const DecoderFacts &facts, const Var &queries, const Var &keys, std::int64_t headDim);
// self_attn of a layer, with its programs.
void addSelfAttention(Builder &b, ModuleIndex layer, const DecoderFacts &facts, std::int64_t layerIndex, double eps);

// The whole description of a llama-like decoder.
Result<ModelDescription> describeDecoder(const ModelConfig &config, const Upstream &upstream,
                                                const DecoderFacts &facts);

} // namespace tpscope::blocks
