// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/frame.h"
#include "graph/shapeflow.h"
#include "graph/staticcache.h"

namespace tpscope {

// Where a frame reads a value from, relative to the frame: Dynamo's guard sources.
struct GuardSource {
    enum class Kind {
        Local,           // a local variable the frame starts with: kind, rank, sizes; plain value
        ModuleClass,     // class of the module at self.<path>
        ModuleAttribute, // self.<path>.<name>, an int, str or bool of an nn.Module
        Parameter,       // shape of the parameter self.<path>.<name>
        CacheLength,     // cumulative_length_int of cache layer `layer`
    };
    Kind kind = Kind::Local;
    std::string path;
    std::string name;
    std::size_t layer = 0;

    std::string key() const;
};

// A read that happened while top-level statement `statement` of the traced frame ran.
struct Read {
    GuardSource source;
    TracedValue value;
    std::size_t statement = 0;
};

// What a compiled entry demands of a source.
struct Guard {
    GuardSource source;
    TracedValue expected;
    unsigned dynamicSizes = 0; // bit d: dimension d may be any size >= 2
    bool dynamicInt = false;   // may be any int with the same comparisons
    int comparisons = 0;       // of a dynamic cache length with its window
};

// Automatic dynamic shapes of one code object: sizes and Python ints are static when first seen; a
// second value of the same source makes the new entry dynamic. A change of rank makes every size of
// the source dynamic. Sizes 0 and 1 stay static, so do parameters and the ints, strings and bools
// of an nn.Module. Source: torch 2.13 _dynamo/pgo.py FrameStateSizeEntry, variables/builder.py
// wrap_symint and _automatic_dynamic.
class AutomaticDynamic {
public:
    void observe(const GuardSource &source, const TracedValue &value);
    unsigned dynamicSizes(const GuardSource &source, const TracedValue &value) const;
    bool dynamicInt(const GuardSource &source) const;

private:
    struct State {
        std::optional<Sizes> sizes;
        unsigned dynamic = 0;
        bool rankChanged = false;
        std::optional<std::int64_t> number;
        bool numberChanged = false;
    };
    std::unordered_map<std::string, State> m_states;
};

// Reads sources of frames and checks guards against them.
class FrameFacts {
public:
    // cache may be nullptr. References must outlive this object.
    FrameFacts(const ModelDescription &model, const ShapeFlow &shapes, const StaticCache *cache,
               std::int64_t tokens);

    TracedValue valueOf(const GuardSource &source, const Frame &frame) const;
    bool passes(const Guard &guard, const Frame &frame) const;
    // pinned: (local variable, dimension) that an operation ties to a static size, which makes it
    // static again.
    Guard guardOn(const Read &read, const AutomaticDynamic &dynamic,
                  const std::vector<std::pair<int, int>> &pinned) const;

private:
    std::optional<ModuleIndex> moduleAt(const Frame &frame, const std::string &path) const;

    const ModelDescription &m_model;
    const ShapeFlow &m_shapes;
    const StaticCache *m_cache;
    std::int64_t m_tokens;
};

} // namespace tpscope
