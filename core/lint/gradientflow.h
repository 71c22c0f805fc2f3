// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lint/layout.h"

namespace tpscope {

// How what a rank has as a gradient relates to the true one. Complete: the truth times tp^power (for what this rank
// holds). Partial: the sum over the ranks is that. Wrong: neither.
struct GradientKind {
    enum class State { None, Complete, Partial, Wrong };
    State state = State::None;
    int power = 0;
    int cause = -1; // finding that explains a Partial, a scale or a Wrong; -1 none

    static GradientKind complete() { return {State::Complete, 0, -1}; }
    static GradientKind wrongBecause(int finding) { return {State::Wrong, 0, finding}; }
    bool none() const { return state == State::None; }
    bool right() const { return state == State::Complete && power == 0; }
    bool sameAs(const GradientKind &o) const { return state == o.state && power == o.power; }
};

// The sum of two contributions to one gradient. Unequal kinds make a wrong one.
GradientKind sumOf(const GradientKind &a, const GradientKind &b);
// An all-reduce (sum) of a gradient that every rank holds whole: partial becomes complete, complete tp times too large.
GradientKind allReduced(const GradientKind &kind);
// The part of a gradient that a rank slices out, or that belongs to a tensor it alone holds: a partial one has lost
// what the other ranks had.
GradientKind ownPart(const GradientKind &kind);
// What `kind` becomes where each rank contributes only its own part to the gradient of something all ranks hold.
GradientKind contribution(const GradientKind &kind, int cause);

// Slots for the gradients of activations and parameters, and the tape of backward steps.
class GradientTape {
public:
    int newSlot() {
        m_kinds.emplace_back();
        return static_cast<int>(m_kinds.size()) - 1;
    }
    const GradientKind &at(int slot) const { return m_kinds[static_cast<std::size_t>(slot)]; }
    void set(int slot, GradientKind kind) { m_kinds[static_cast<std::size_t>(slot)] = kind; }
    void add(int slot, GradientKind kind); // no effect for slot -1 or no gradient

    using Step = std::function<void(GradientTape &)>;
    void record(Step step) { m_steps.push_back(std::move(step)); }
    // Runs the steps last to first.
    void backward();

private:
    std::vector<GradientKind> m_kinds;
    std::vector<Step> m_steps;
};

} // namespace tpscope
