// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "model/dtype.h"

namespace tpscope {

// What a module attribute may hold: what an operation, a guard or an interpreter reads from `self`.
using Attribute = std::variant<std::int64_t, double, bool, std::string>;

// One parameter as named_parameters() shows it, fused and transposed as the module holds it.
struct Parameter {
    std::string name; // within its module: "weight", "bias"
    Shape shape;      // global, unsharded
    DType dtype = DType::F32;
    double initStd = 0.02;  // random weights: normal(initMean, initStd)
    double initMean = 0.0;  // norms: mean 1, std 0 unless a family says otherwise
    // How a checkpoint that lacks the parameter's own name stores it: full tensor names. With "{}" in them: one tensor an
    // index of dimension 0, that number in place of "{}", and the names' tensors one behind the other along dimension 1.
    std::vector<std::string> storedAs = {};
    bool storedInParts() const { return !storedAs.empty() && storedAs.front().find("{}") != std::string::npos; }
};

// A node of named_modules(). Children are in call order where a forward calls them, else in registration order.
struct Module {
    std::string name;      // full: "model.layers.3.self_attn.q_proj"; "" for the root
    std::string localName; // last segment
    std::string className; // "Qwen3RMSNorm", "Linear"
    std::optional<ModuleIndex> parent;
    std::vector<ModuleIndex> children;
    std::vector<Parameter> parameters;
    std::vector<Parameter> buffers; // tensors of the checkpoint that are no parameters: whole on each rank, no gradient

    // Code objects, ids into ModelDescription::programs. call: what `module(...)` enters before nn.Module._call_impl
    // (GradientCheckpointingLayer.__call__ up to 5.22), empty for most. forward: the outermost code object behind
    // _call_impl (a decorator's wrapper, or the forward itself); empty: never called (ModuleList).
    std::string callProgram;
    std::string forwardProgram;

    std::map<std::string, Attribute> attributes; // layer_idx, head_dim, eps, in_features, ...

    // Facts the style wrapper needs (REFERENCE.md section 2).
    bool hasInFeatures = false;     // nn.Linear-like: rowwise is accepted
    bool hasOutFeatures = false;    // nn.Linear-like: colwise is accepted
    bool isEmbedding = false;       // nn.Embedding
    bool isLinear = false;          // isinstance(module, nn.Linear)
    bool calledWithKeywords = false; // its caller passes the input by keyword
    bool returnsTuple = false;       // returns a tuple or an output object

    std::int64_t integer(const std::string &key, std::int64_t fallback = 0) const;
    double real(const std::string &key, double fallback = 0.0) const;
    bool flag(const std::string &key, bool fallback = false) const;
    std::string text(const std::string &key, const std::string &fallback = {}) const;
    const Parameter *parameter(std::string_view parameterName) const;
    const Parameter *buffer(std::string_view bufferName) const;
};

// The target parameter is the same tensor as the source (tie_word_embeddings): full names with the parameter.
struct Tie {
    std::string target; // "lm_head.weight": not in the checkpoint and not in named_parameters()
    std::string source; // "model.embed_tokens.weight"
};

struct ModuleTree {
    std::vector<Module> modules; // [0] is the root; a parent stands before its children
    std::vector<Tie> ties;

    const Module &root() const { return modules.front(); }
    const Module &at(ModuleIndex index) const { return modules[index.value]; }
    const Module *find(std::string_view fullName) const;                 // nullptr when there is none
    std::optional<ModuleIndex> indexOf(std::string_view fullName) const;
    // The module at a path relative to another: ("model.layers.0", "self_attn.q_proj").
    std::optional<ModuleIndex> resolve(ModuleIndex from, std::string_view path) const;

    // Adds a module below parent and returns its index. Keeps names, parent and children consistent.
    ModuleIndex add(std::optional<ModuleIndex> parent, std::string localName, std::string className);

private:
    std::unordered_map<std::string, std::size_t> m_byName;
};

// "model.layers.0.self_attn.q_proj" -> "model.layers.*.self_attn.q_proj". Every path segment that is a number becomes
// "*", except that of two adjacent numeric segments only the first does (upstream's rewriting consumes the dot).
// Source: transformers 5.24, distributed/parallel_utils.py replace_layer_number_by_wildcard.
std::string genericName(std::string_view fullName);

} // namespace tpscope
