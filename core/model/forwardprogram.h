// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/moduletree.h"

// A ForwardProgram describes one Python code object (one frame torch.compile may intercept) as statements in call
// order. Layout flow, graph capture, cost model and native execution interpret the same programs.
namespace tpscope {

// A local variable of a frame. Tensors, None, and tuples flattened to one name an element ("cos", "sin").
using Var = std::string;

// The kinds of tensor work. Each interpreter has one row for each kind. Shapes: B batch, T query tokens, S positions
// in the cache, H hidden, D head_dim; heads stand as [B, T, heads, D] until Transpose makes [B, heads, T, D].
enum class OpKind {
    Embedding,   // in: ids [B,T]              params: weight [V,H]            out: [B,T,H]
    Linear,      // in: x [...,I]              params: weight [O,I], bias?      out: [...,O]
    RmsNorm,     // in: x                      params: weight                   out: like x. attr eps
    Activation,  // in: x                      attr function ("silu", ...)      out: like x
    Multiply,    // in: a, b                                                    out: elementwise product
    Add,         // in: a, b                                                    out: elementwise sum (residual)
    ViewHeads,   // in: x [B,T,n*D]            attr or self attr head_dim       out: [B,T,n,D], n = -1 or attr heads
    SingleHead,  // in: x [B,T,D]                                               out: [B,1,T,D]
    DropHead,    // in: x [B,1,S,D] of the cache                                out: [B,S,D], the positions that are filled
    CatHeads,    // in: a [B,n,T,D], b [B,n,T,E] or [B,1,T,E], b for every head  out: [B,n,T,D+E]
    Transpose,   // in: x [B,T,n,D]                                             out: [B,n,T,D]
    RopeTable,   // in: x, position_ids        self attrs rope                  out: cos, sin [B,T,D]
    Rope,        // in: q, k, cos, sin                                          out: q, k. attr interleave: pairs of
                 //                            neighbours rotate and the result holds first all firsts
    CausalMask,  // in: embeddings, mask, cache, positions                      out: mask or None
    CacheUpdate, // in: k, v                   self attr layer_idx              out: k, v over the whole cache
    Attend,      // in: q, k, v, mask          self attrs head_dim, scaling, num_key_value_groups, sliding_window
                 //                            params: sinks [heads]?: one more score a head, whose share is dropped
                 //                                                             out: [B,T,heads,D]
    MergeHeads,  // in: x [B,T,n,D]                                             out: [B,T,n*D]
    SliceTokens, // in: x [B,T,H]              logits_to_keep                   out: [B,T',H]
    Slice,       // in: x [...,I]              attrs begin, end (positions of the last dimension; a missing end: to
                 //                            its end) or chunk, of (torch.chunk)   out: [...,I']; of each head where
                 //                            heads are viewed. attr whole: the only width it takes (torch.split)
    Scale,       // in: x                      self attr embed_scale            out: x times it
    FlattenTokens, // in: x [B,T,...]                                            out: [B*T,...]
    BatchTokens,   // in: x [B*T,...], like [B,T,...]                            out: [B,T,...]
    Router,        // in: x [N,H]              params: weight [E,H], bias? [E]  out: scores, indices [N,k]
                   //                          self attrs top_k, norm_topk_prob: softmax, the k largest, made to sum to 1;
                   //                          softmax_chosen: the k largest, softmax of these; n_group > 0: sigmoid, the
                   //                          k largest of the topk_group best groups by score plus the third parameter
                   //                          (a buffer), times routed_scaling_factor
    ExpertProduct, // in: x [N,I] or [N,k,I], indices   params: weight [E,O,I], bias? [E,O]
                   //                          attr transposed: weight [E,I,O]  out: [N,k,O], each by its own expert
                   //                          attr batched: one bmm over all experts, which takes rows of any width
    InterleavedGlu, // in: x [...,2I], gate and up by turns   self attrs swiglu_alpha, swiglu_limit   out: [...,I]
    CombineExperts, // in: x [N,k,H], scores, indices                            out: [N,H], weighted by the scores
    Select,      // in: one variable a choice; attr by ("layer_type")           out: the chosen one. No graph operation
    LayerNorm,   // in: x                      params: weight, bias?            out: like x, mean 0. attr eps
    UnitNorm,    // in: x                                                       out: like x; an RmsNorm without weight
    Clamp,       // in: x                      self attr clip c                 out: x, no further from 0 than c
    Softcap,     // in: x                      self attr softcap c              out: c tanh(x / c)
    CappedAttend, // as Attend; self attr softcap, of the scores before their softmax
    PositionScale, // in: x                                                     out: x times a factor of each position
    Concat,      // in: x.. [...,I]                                             out: one behind the other, last dimension
    Convolve,    // in: x [B,T,C]              params: weight [C,1,K]           out: like x; each channel over its last K
                 //                            tokens, then self attr function
    DeltaRule,   // in: q, k [B,T,n,D], v [B,T,m,E], b, a [B,T,m], cache   params: A_log, dt_bias [m]   out: [B,T,m,E], the
                 //                            state of each head carried from token to token, and in the cache if any
    GroupRouter, // as Router: softmax, the k largest within the topk_group groups whose `best` (self attr) largest scores
                 //                            sum to most; chosen scores made to sum to 1 where norm_topk_prob
    SpreadTokens, // in: x [N,H], scores [N,k]                                  out: [N,k,H], a copy a score, times it
    SumExperts,  // in: x [N,k,H]                                               out: [N,H]
};

std::string_view name(OpKind kind); // "linear", "rms_norm", ...

// A Python value that a statement reads and Dynamo therefore guards on (fixtures/graph_breaks.md section 8). Reads of
// tensors need no entry: an operation that touches a tensor reads its rank and sizes.
struct GuardRead {
    enum class Kind {
        SelfAttribute,  // self.<name>: layer_idx, is_sliding, layer_type
        Argument,       // a plain-valued argument of the frame, by variable: layer_type of gemma3's rotary call
        CacheLength,    // past_key_values.layers[self.<name>].cumulative_length_int, only where that layer slides
    };
    Kind kind = Kind::SelfAttribute;
    std::string name;
};

struct Operation;
// Positions [first, second) that a Slice takes of a last dimension of this width; as Python, past the end is empty.
std::pair<std::int64_t, std::int64_t> slicedPositions(const Operation &operation, std::int64_t width);

// An integer attribute of the operation.
std::int64_t integerOf(const Operation &operation, const std::string &key, std::int64_t fallback);

struct Operation {
    OpKind kind = OpKind::Add;
    std::vector<Var> in;
    std::vector<Var> out;
    // Own parameters of self it uses, in the order of the row; "conv1d.weight": of a child that is not called itself.
    std::vector<std::string> parameters;
    std::map<std::string, Attribute> attributes; // in_place: true where it changes its first input (clamp_)
    std::vector<GuardRead> reads;
    int graphOps = 1; // tensor operations Dynamo records; only zero or not matters to capture
    // A bool of self: where it is false the branch is not taken and out[i] is in[i] (rope of layers without positions).
    std::string onlyIf = {};
};

// self.<path>(args): goes through nn.Module.__call__, so hooks and styles of that module apply.
struct CallModule {
    std::string path;      // relative to self; or a loop's element ("layer", see LoopModules), then element is true
    std::vector<Var> args; // variables of this frame, in the order of the callee's inputs; "" stands for None
    std::vector<Var> out;
    bool element = false;
    std::map<Var, Attribute> constants = {}; // plain arguments by the callee's input: layer_type of gemma3's rotary call
};

// A plain function or an inner frame of a wrapper: no hook boundary. self stays the same module.
struct CallFunction {
    std::string program; // id into ModelDescription::programs
    std::vector<Var> args;
    std::vector<Var> out;
    std::map<Var, Attribute> constants = {}; // as in CallModule
};

// Inside a callProgram: nn.Module._call_impl of self, the boundary where hooks of self sit; enters self's forward.
struct CallForward {
    std::vector<Var> args;
    std::vector<Var> out;
};

struct Statement;
using Body = std::vector<Statement>;

// for <element> in self.<list>: a frame that breaks inside cannot resume.
struct LoopModules {
    std::string list;
    std::string element;
    std::vector<Var> carried; // variables that flow from one turn to the next
    Body body;
};

// try/finally or try/except: a frame that breaks inside cannot resume. So is the written-out body of a Python loop that
// is not over modules (for layer_type in set(layer_types)): loop is then true.
struct TryBlock {
    Body body;
    bool loop = false;
};

struct Statement {
    std::variant<Operation, CallModule, CallFunction, CallForward, LoopModules, TryBlock> node;
    std::string label; // for people: "q_norm(q_proj(x))"; may be empty
};

struct ForwardProgram {
    std::string id;    // unique: "Qwen3Attention.forward"
    std::string frame; // the code object's name and file as Dynamo prints them: "forward@modeling_qwen3.py"
    std::vector<Var> inputs;
    std::vector<Var> outputs;
    Body body;
    // True for code in Dynamo's skipfiles (torch/nn/modules): inlined when traced, never a frame of its own.
    bool skipFile = false;
    // The code object, where several programs are closures of one Python function (a decorator's wrapper): Dynamo caches
    // by code object, so they share its entries and its recompile limit. Empty: the id.
    std::string codeObject = {};
};

} // namespace tpscope
