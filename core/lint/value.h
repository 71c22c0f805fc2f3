// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>

#include "base/ids.h"
#include "lint/layout.h"

namespace tpscope {

// What Python holds on each rank: a local tensor, or a DTensor whose placement *claims* what the ranks hold together.
enum class Form {
    Local,      // plain tensor
    Replicated, // DTensor, Replicate(): local parts are taken to be equal, and need not be
    Sequence,   // DTensor, Shard(1): local parts are taken to be pieces of a longer sequence
};

// One activation on every rank, as far as the layout flow needs to know it.
struct Value {
    Layout layout;          // of the last dimension; heads and head_dim count as one, also after the heads are viewed
    Layout contracted;      // tracked: a partial sum over these ids of a contracted dimension; right only once all-reduced
    std::int64_t headDim = 0; // > 0: viewed as [..., heads, headDim]
    int power = 0;          // the tensor is tp^power times what one rank alone would have
    Form form = Form::Local;
    bool wrong = false;     // holds something else than it should; the flow goes on, a later error wins
    bool unknown = false;   // behind a forward error: nothing is judged any more
    bool indices = false;   // token ids
    bool flat = false;      // [N, channels]: batch and tokens are one dimension
    bool madeLocal = false; // a view that a style made of a DTensor: in training nothing may change it in place
    bool slidingMask = false;      // a mask of a sliding window
    bool requiresGradient = false; // some trainable parameter lies before it
    int gradient = -1;      // its slot in the gradient table; identity operations share one
    // The gradient of the channels from tailBegin on, where a style treats it apart; -1: gradient has all.
    int tailGradient = -1;
    std::int64_t tailBegin = 0;
    int pending = -1;       // finding that is true only if the scale does harm (see FlowRun)
    int brokenBy = -1;      // finding that is true only if the broken channels are used
    std::optional<ModuleIndex> origin; // the module that gave it its layout

    bool partial() const { return contracted.tracked(); }
};

} // namespace tpscope
