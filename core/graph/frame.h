// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/modeldescription.h"
#include "plan/parallelstyle.h"

// What the graph capture walks over: abstract values and frames. Internal to core/graph.
namespace tpscope {

// Rank and sizes of a tensor as this rank (0) sees it.
struct Sizes {
    static constexpr int maxRank = 8;
    std::array<std::int64_t, maxRank> at{};
    int rank = 0;

    Sizes() = default;
    Sizes(std::initializer_list<std::int64_t> sizes);
    explicit Sizes(const Shape &shape);
    std::int64_t last() const { return rank > 0 ? at[static_cast<std::size_t>(rank - 1)] : 0; }
    void setLast(std::int64_t size);
    bool operator==(const Sizes &) const = default;
};

// What torch.compile knows of a Python value: enough to guard on, nothing to compute with.
struct TracedValue {
    enum class Kind : std::uint8_t { None, Tensor, Plain, Cache };
    Kind kind = Kind::None;
    bool integer = false; // tensor of token ids
    Sizes sizes;
    Attribute plain; // Plain: int, float, bool or str
    // Index of the root frame's local variable this value is, unchanged; -1: computed in the frame.
    // Only a value that came in from outside can be guarded on.
    int local = -1;

    static TracedValue tensor(Sizes sizes, bool integer = false);
    static TracedValue of(Attribute plain);
    static TracedValue cache();
};

// A Python function a frame can run: a program of the description, or the closure tp_forward that a
// parallel style puts in place of a module's forward.
struct Callable {
    const ForwardProgram *program = nullptr;
    const ParallelStyle *style = nullptr; // tp_forward: its operations are the style's transforms
    std::string code;                     // code object; closures of one function share it
    std::string name;                     // for people
};

// A running function. Inlined callees are frames too, on the stack of the root frame that is being
// traced.
struct Frame {
    const Callable *callable = nullptr;
    ModuleIndex self;
    std::string path;      // of self, relative to the root frame's self; "" for the root frame
    std::size_t begin = 0; // first statement: 0, or where a resume frame goes on
    std::optional<ModuleIndex> element; // of the innermost loop over modules
    std::string elementPath;
    std::vector<std::pair<std::string_view, TracedValue>> locals; // names live in the program

    const TracedValue &get(std::string_view variable) const; // None when it is not set
    void set(std::string_view variable, TracedValue value);
    std::vector<TracedValue> results() const; // values of the program's outputs
};

std::string joinPath(const std::string &base, const std::string &path);

} // namespace tpscope
