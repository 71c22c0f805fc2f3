// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/gradientflow.h"

namespace tpscope {

using State = GradientKind::State;

GradientKind sumOf(const GradientKind &a, const GradientKind &b) {
    if (a.none())
        return b;
    if (b.none())
        return a;
    if (a.sameAs(b))
        return {a.state, a.power, a.cause >= 0 ? a.cause : b.cause};
    if (a.state == State::Wrong)
        return a;
    if (b.state == State::Wrong)
        return b;
    // One of the two is the odd one; it knows why.
    return GradientKind::wrongBecause(a.right() ? b.cause : a.cause >= 0 ? a.cause : b.cause);
}

GradientKind allReduced(const GradientKind &kind) {
    switch (kind.state) {
    case State::Partial: return {State::Complete, kind.power, kind.power == 0 ? -1 : kind.cause};
    case State::Complete: return {State::Complete, kind.power + 1, kind.cause};
    case State::None:
    case State::Wrong: break;
    }
    return kind;
}

GradientKind ownPart(const GradientKind &kind) {
    return kind.state == State::Partial ? GradientKind::wrongBecause(kind.cause) : kind;
}

GradientKind contribution(const GradientKind &kind, int cause) {
    switch (kind.state) {
    case State::Complete: return {State::Partial, kind.power, kind.cause >= 0 ? kind.cause : cause};
    case State::Partial: return GradientKind::wrongBecause(kind.cause);
    case State::None:
    case State::Wrong: break;
    }
    return kind;
}

void GradientTape::add(int slot, GradientKind kind) {
    if (slot >= 0 && !kind.none())
        set(slot, sumOf(at(slot), kind));
}

void GradientTape::backward() {
    for (auto step = m_steps.rbegin(); step != m_steps.rend(); ++step)
        (*step)(*this);
}

} // namespace tpscope
