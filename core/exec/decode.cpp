// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/decode.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>

#include "run/prompts.h"

namespace tpscope {
namespace {

double medianOf(std::vector<double> values) {
    if (values.empty())
        return 0.0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    if (values.size() % 2 == 1)
        return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

// Time of each module in each measured step, read from the events of the step after it ended.
class ModuleTimes {
public:
    void add(RankPage page, std::uint64_t from) {
        const std::uint64_t end = page.status().written.load(std::memory_order_relaxed);
        from = std::max(from, end > page.capacity() ? end - page.capacity() : 0);
        for (std::uint64_t index = from; index < end; ++index) {
            const Event &event = page.at(index);
            if (event.module < 0)
                continue;
            auto [found, isNew] = m_index.emplace(event.module, m_rows.size());
            if (isNew)
                m_rows.push_back({event.module, {}, {}});
            Row &row = m_rows[found->second];
            std::vector<double> &sums = event.kind == EventKind::Collective ? row.collective : row.compute;
            sums.resize(m_steps + 1, 0.0);
            sums[m_steps] += static_cast<double>(event.duration) / 1e6;
        }
        ++m_steps;
    }

    std::vector<ModuleTime> medians(const std::vector<std::string> &names) {
        std::vector<ModuleTime> out;
        for (Row &row : m_rows) {
            row.compute.resize(m_steps, 0.0);
            row.collective.resize(m_steps, 0.0);
            ModuleTime time;
            time.module = names.at(static_cast<std::size_t>(row.module));
            time.computeMs = medianOf(std::move(row.compute));
            time.collectiveMs = medianOf(std::move(row.collective));
            out.push_back(std::move(time));
        }
        return out;
    }

private:
    struct Row {
        std::int32_t module;
        std::vector<double> compute; // by step
        std::vector<double> collective;
    };
    std::vector<Row> m_rows; // in call order
    std::map<std::int32_t, std::size_t> m_index;
    std::size_t m_steps = 0;
};

// Appends rows as float32.
void append(std::vector<float> &to, const at::Tensor &rows) {
    const at::Tensor flat = rows.to(at::kFloat).contiguous().view({-1});
    const auto *from = flat.const_data_ptr<float>();
    to.insert(to.end(), from, from + flat.numel());
}

class Decode {
public:
    Decode(const ExecutionModel &model, const RunConfig &config, const RunClock &clock, RankPage page,
           KeptLogits &logits, const DecodeCallbacks &callbacks)
        : m_model(model), m_config(config), m_clock(clock), m_page(page), m_logits(logits), m_callbacks(callbacks),
          m_prompts(PromptBatch::of(config.inputIds)), m_step(model, m_prompts.rows, 1, true, clock, page) {
        m_cache.capacity = m_prompts.tokens + config.warmupTokens + config.newTokens;
        m_cache.padding = m_prompts.padding;
        m_cache.layers.resize(static_cast<std::size_t>(model.description.dims.layers));
        m_next.resize(config.inputIds.size());
    }

    DecodeResult run() {
        for (int repeat = 0; repeat < m_config.repeat && !m_result.cancelled; ++repeat) {
            prefill(repeat);
            steps(repeat);
        }
        m_result.modules = m_times.medians(eventModuleNames(m_model));
        return std::move(m_result);
    }

private:
    void prefill(int repeat);
    void steps(int repeat);
    void choose(const at::Tensor &logits, std::int32_t token);
    void keep(const at::Tensor &logits, std::size_t chosen, bool first);
    void note(EventKind kind, BoundaryOp op, std::int64_t start, std::int32_t token);
    // True when any rank wants to stop; also the barrier.
    bool meet() {
        m_page.status().inCollective.store(1, std::memory_order_relaxed);
        const bool wanted = m_callbacks.stopWanted();
        const bool stop = m_model.group ? m_model.group->any(wanted) : wanted;
        m_page.status().inCollective.store(0, std::memory_order_relaxed);
        return stop;
    }

    const ExecutionModel &m_model;
    const RunConfig &m_config;
    const RunClock &m_clock;
    RankPage m_page;
    KeptLogits &m_logits;
    const DecodeCallbacks &m_callbacks;
    PromptBatch m_prompts;
    KvCache m_cache;
    Inference m_step;
    std::vector<std::int64_t> m_next; // one a row
    ModuleTimes m_times;
    DecodeResult m_result;
};

void Decode::note(EventKind kind, BoundaryOp op, std::int64_t start, std::int32_t token) {
    Event event;
    event.start = start;
    event.duration = m_clock.now() - start;
    event.kind = kind;
    event.token = token;
    event.op = opIndex(op);
    m_page.push(event);
}

// The id of the largest logit of each row; of equal ones the first.
void Decode::choose(const at::Tensor &logits, std::int32_t token) {
    const std::int64_t start = m_clock.now();
    const at::Tensor chosen = logits.select(1, logits.size(1) - 1).argmax(-1);
    const auto *ids = chosen.const_data_ptr<std::int64_t>();
    std::copy(ids, ids + m_prompts.rows, m_next.begin());
    note(EventKind::Compute, BoundaryOp::Argmax, start, token);
}

// After the choice of new token `chosen`, outside of what is timed.
void Decode::keep(const at::Tensor &logits, std::size_t chosen, bool first) {
    if (!first || chosen >= static_cast<std::size_t>(m_config.newTokens))
        return;
    m_result.ids.resize(m_next.size());
    for (std::size_t row = 0; row < m_next.size(); ++row)
        m_result.ids[row].push_back(m_next[row]);
    const at::Tensor last = logits.select(1, logits.size(1) - 1);
    m_result.lastLogits.clear();
    append(m_result.lastLogits, last);
    if (m_logits.wanted) {
        m_logits.vocabulary = logits.size(-1);
        append(m_logits.decode, last);
    }
}

void Decode::prefill(int repeat) {
    m_page.status().phase.store(static_cast<int>(RankPhase::Prefill), std::memory_order_relaxed);
    m_page.status().token.store(-1, std::memory_order_relaxed);
    m_cache.length = 0;
    const bool all = m_logits.wanted && repeat == 0;
    Inference prompt(m_model, m_prompts.rows, m_prompts.tokens, false, m_clock, m_page);
    if ((m_result.cancelled = meet()))
        return;
    const std::int64_t start = m_clock.now();
    const at::Tensor &logits = prompt.run(m_prompts.ids, m_cache, all, -1);
    choose(logits, -1);
    m_result.firstTokenMs.push_back(static_cast<double>(m_clock.now() - start) / 1e6);
    note(EventKind::Token, BoundaryOp::Step, start, -1);
    if (all)
        append(m_logits.prefill, logits);
    keep(logits, 0, repeat == 0);
}

void Decode::steps(int repeat) {
    m_page.status().phase.store(static_cast<int>(RankPhase::Decode), std::memory_order_relaxed);
    const int all = m_config.warmupTokens + m_config.newTokens;
    for (int step = 0; step < all && !m_result.cancelled; ++step) {
        m_page.status().token.store(step, std::memory_order_relaxed);
        if ((m_result.cancelled = meet()))
            return;
        const std::uint64_t before = m_page.status().written.load(std::memory_order_relaxed);
        const std::int64_t start = m_clock.now();
        const at::Tensor &logits = m_step.run(m_next, m_cache, false, step);
        choose(logits, step);
        const std::int64_t end = m_clock.now();
        if (step >= m_config.warmupTokens) {
            m_result.tokenMs.push_back(static_cast<double>(end - start) / 1e6);
            m_times.add(m_page, before);
        }
        note(EventKind::Token, BoundaryOp::Step, start, step);
        keep(logits, static_cast<std::size_t>(step) + 1, repeat == 0);
        m_callbacks.progress(repeat * all + step + 1, m_config.repeat * all);
    }
    m_result.collectives = m_step.collectives();
}

} // namespace

std::vector<std::string> eventModuleNames(const ExecutionModel &model) {
    std::vector<std::string> names;
    for (const Module &module : model.description.tree.modules)
        names.push_back(module.name.empty() ? module.className : module.name);
    names.insert(names.end(), model.list.fusedNames.begin(), model.list.fusedNames.end());
    return names;
}

DecodeResult decode(const ExecutionModel &model, const RunConfig &config, const RunClock &clock, RankPage page,
                    KeptLogits &logits, const DecodeCallbacks &callbacks) {
    // Neither autograd's bookkeeping nor its dispatch keys are on the path.
    const c10::InferenceMode inference;
    DecodeResult result = Decode(model, config, clock, page, logits, callbacks).run();
    // Rows of one sequence together: [new tokens, batch, vocab] -> [batch, new tokens, vocab].
    const std::size_t batch = config.inputIds.size();
    if (batch > 1 && logits.wanted && logits.vocabulary > 0) {
        const auto width = static_cast<std::size_t>(logits.vocabulary);
        const std::size_t tokens = logits.decode.size() / width / batch;
        std::vector<float> sorted(logits.decode.size());
        for (std::size_t t = 0; t < tokens; ++t)
            for (std::size_t b = 0; b < batch; ++b)
                std::memcpy(&sorted[(b * tokens + t) * width], &logits.decode[(t * batch + b) * width],
                            width * sizeof(float));
        logits.decode = std::move(sorted);
    }
    return result;
}

} // namespace tpscope
