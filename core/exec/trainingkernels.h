// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "exec/execution.h"
#include "exec/gradienthooks.h"

// Kernels of the forward with gradients. Internal to core/exec.
namespace tpscope {

// One forward; values are autograd's, so nothing is preallocated or changed in place.
struct TrainingForward {
    const ExecutionModel &model;
    GradientHooks &hooks;
    std::int64_t tokens;
    std::vector<std::int64_t> padding; // [batch] positions in front of each prompt; empty: none has any
    std::vector<at::Tensor> slots;

    at::Tensor &slot(int index) { return slots[static_cast<std::size_t>(index)]; }
    at::Tensor &input(const Instruction &instruction, std::size_t i) { return slot(instruction.in[i]); }
    const at::Tensor *parameter(const Instruction &instruction, std::size_t i) const;
    const ModuleConstants &constants(const Instruction &instruction) const;
};

// Steps of expertexchange.cpp.
namespace expertexchange {
void dispatchTokens(const Instruction &instruction, TrainingForward &forward);
void returnTokens(const Instruction &instruction, TrainingForward &forward);
} // namespace expertexchange

using TrainingKernel = void (*)(const Instruction &, TrainingForward &);
TrainingKernel trainingKernelOf(const Instruction &instruction); // nullptr: none

} // namespace tpscope
