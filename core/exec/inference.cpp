// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/inference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace tpscope {
namespace {

std::int32_t opOf(const Instruction &instruction) {
    switch (instruction.step) {
    case Step::AllReduce: return opIndex(BoundaryOp::AllReduce);
    case Step::AllGather: return opIndex(BoundaryOp::AllGather);
    case Step::SplitInput: return opIndex(BoundaryOp::SplitInput);
    case Step::DivideInput: return opIndex(BoundaryOp::DivideInput);
    case Step::AddBias: return opIndex(BoundaryOp::AddBias);
    default: return instruction.operation ? opIndex(instruction.operation->kind) : -1;
    }
}

bool isCollective(const Instruction &instruction) {
    return instruction.step == Step::AllReduce || instruction.step == Step::AllGather;
}

// LibTorch appends its stack to a message; people want the first line.
std::string firstLine(const char *what) {
    const std::string text(what);
    return text.substr(0, text.find('\n'));
}

} // namespace

Inference::Inference(const ExecutionModel &model, std::int64_t batch, std::int64_t tokens, bool keepsBuffers,
                     const RunClock &clock, RankPage page)
    : m_model(model), m_execution{model}, m_keepsBuffers(keepsBuffers), m_clock(clock), m_page(page) {
    m_execution.batch = batch;
    m_execution.tokens = tokens;
    m_execution.slots.resize(static_cast<std::size_t>(model.list.slotCount));
    m_execution.scratch.resize(model.list.instructions.size());
    m_execution.slot(model.list.ids) = at::zeros({batch, tokens}, at::kLong);
    for (const Instruction &instruction : model.list.instructions) {
        m_kernels.push_back(kernelOf(instruction));
        m_ops.push_back(opOf(instruction));
    }
    m_reduces = &m_collectives["all_reduce"];
    m_gathers = &m_collectives["all_gather"];
}

const at::Tensor &Inference::run(std::span<const std::int64_t> ids, KvCache &cache, bool allLogits,
                                 std::int32_t token) {
    m_execution.cache = &cache;
    m_execution.allLogits = allLogits;
    *m_reduces = *m_gathers = {};
    at::Tensor &input = m_execution.slot(m_model.list.ids);
    if (!input.defined())
        input = at::empty({m_execution.batch, m_execution.tokens}, at::kLong);
    std::ranges::copy(ids, input.data_ptr<std::int64_t>());
    m_last = m_clock.now();
    for (std::size_t i = 0; i < m_kernels.size(); ++i)
        if (!(m_warm && m_model.list.instructions[i].isView))
            step(i, token);
    m_warm = m_keepsBuffers;
    cache.length += m_execution.tokens;
    return m_execution.slot(m_model.list.logits);
}

void Inference::step(std::size_t index, std::int32_t token) {
    const Instruction &instruction = m_model.list.instructions[index];
    const bool collective = isCollective(instruction);
    RankStatus &status = m_page.status();
    status.module.store(static_cast<std::int32_t>(instruction.module.value), std::memory_order_relaxed);
    status.beat.fetch_add(1, std::memory_order_relaxed);
    if (collective)
        status.inCollective.store(1, std::memory_order_relaxed);
    try {
        m_kernels[index](instruction, m_execution);
    } catch (const std::exception &error) {
        throw std::runtime_error(failureOf(instruction, error.what()));
    }
    if (collective)
        status.inCollective.store(0, std::memory_order_relaxed);
    if (!instruction.isView) {
        Event event;
        event.start = m_last;
        m_last = m_clock.now();
        event.duration = m_last - event.start;
        event.kind = collective ? EventKind::Collective : EventKind::Compute;
        event.token = token;
        event.layer = instruction.layer;
        event.module = instruction.eventModule;
        event.op = m_ops[index];
        event.bytes = collective ? exchanged(instruction) : 0;
        m_page.push(event);
        if (collective) {
            CollectiveCount &count = instruction.step == Step::AllReduce ? *m_reduces : *m_gathers;
            ++count.count;
            count.bytes += event.bytes;
        }
    }
    if (m_observer)
        m_observer(instruction, m_execution);
    if (m_keepsBuffers)
        return;
    m_execution.scratch[index] = {};
    for (const int slot : instruction.lastUses)
        m_execution.slot(slot).reset();
}

// What this rank puts into a collective: the whole of a sum, its own chunk of a gathering.
std::int64_t Inference::exchanged(const Instruction &instruction) const {
    const at::Tensor &in = m_execution.slots[static_cast<std::size_t>(instruction.in[0])];
    return static_cast<std::int64_t>(in.nbytes());
}

std::string Inference::failureOf(const Instruction &instruction, const char *what) const {
    const Module &module = m_model.description.tree.at(instruction.module);
    std::ostringstream out;
    out << "the forward fails in " << (module.name.empty() ? module.className : module.name) << " ("
        << rankOpNames()[static_cast<std::size_t>(std::max(0, opOf(instruction)))] << " of";
    for (const int slot : instruction.in)
        if (slot != Instruction::none)
            if (const at::Tensor &in = m_execution.slots[static_cast<std::size_t>(slot)]; in.defined())
                out << ' ' << in.sizes();
    for (const int parameter : instruction.parameters)
        if (parameter != Instruction::none)
            out << ", " << m_model.parameters[static_cast<std::size_t>(parameter)]->name << ' '
                << m_model.parameters[static_cast<std::size_t>(parameter)]->tensor.sizes();
    out << "): " << firstLine(what);
    return out.str();
}

} // namespace tpscope
