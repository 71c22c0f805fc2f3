// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <span>

#include "exec/execution.h"
#include "run/rankchannel.h"

namespace tpscope {

// Nanoseconds since the run's start on this rank.
class RunClock {
public:
    std::int64_t now() const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - m_start).count();
    }

private:
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
};

// Runs an instruction list without gradients for calls of one shape [batch, tokens], and records an event for every
// instruction that computes or communicates. Not thread-safe.
class Inference {
public:
    // keepsBuffers: for calls that come again and again (decode); otherwise values are freed after their last use.
    Inference(const ExecutionModel &model, std::int64_t batch, std::int64_t tokens, bool keepsBuffers,
              const RunClock &clock, RankPage page);

    // ids [batch * tokens] at the cache's end, which then grows by `tokens`. Returns logits [batch, tokens or 1, vocab],
    // valid until the next call. token: for the events, -1 prefill. Throws std::runtime_error naming the module and its
    // operands' shapes where a kernel fails.
    const at::Tensor &run(std::span<const std::int64_t> ids, KvCache &cache, bool allLogits, std::int32_t token);

    // Called after each instruction, while its operands and results still stand. Not for what is timed.
    using Observer = std::function<void(const Instruction &, Execution &)>;
    void observe(Observer observer) { m_observer = std::move(observer); }

    // Of the last call: one entry a kind, counted at the edges of modules as transformers' styles exchange.
    const std::map<std::string, CollectiveCount> &collectives() const { return m_collectives; }

private:
    void step(std::size_t index, std::int32_t token);
    std::int64_t exchanged(const Instruction &instruction) const;
    std::string failureOf(const Instruction &instruction, const char *what) const;

    const ExecutionModel &m_model;
    Execution m_execution;
    std::vector<Kernel> m_kernels; // by instruction
    std::vector<std::int32_t> m_ops;
    bool m_keepsBuffers;
    bool m_warm = false;           // buffers and views stand
    const RunClock &m_clock;
    RankPage m_page;
    std::int64_t m_last = 0;       // end of the previous instruction
    std::map<std::string, CollectiveCount> m_collectives;
    CollectiveCount *m_reduces = nullptr;
    CollectiveCount *m_gathers = nullptr;
    Observer m_observer;
};

} // namespace tpscope
