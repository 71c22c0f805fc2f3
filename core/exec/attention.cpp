// SPDX-License-Identifier: GPL-3.0-or-later
// Cache and attention of the forward without gradients.
#include "exec/execution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tpscope {
namespace {

void store(const at::Tensor &from, at::Tensor &cache, std::int64_t position, std::int64_t capacity) {
    const std::int64_t width = from.size(3);
    if (!cache.defined() || cache.size(0) != from.size(0) || cache.size(1) != from.size(1) || cache.size(3) != width)
        cache = at::zeros({from.size(0), from.size(1), capacity, width}, from.options());
    if (position + from.size(2) > capacity)
        throw std::runtime_error("the cache of " + std::to_string(capacity) + " positions is full");
    const auto bytes = static_cast<std::size_t>(width) * from.element_size();
    const auto size = static_cast<std::int64_t>(from.element_size());
    const auto *source = static_cast<const char *>(from.const_data_ptr());
    auto *target = static_cast<char *>(cache.data_ptr());
    for (std::int64_t b = 0; b < from.size(0); ++b)
        for (std::int64_t h = 0; h < from.size(1); ++h)
            for (std::int64_t t = 0; t < from.size(2); ++t)
                std::memcpy(target + (b * cache.stride(0) + h * cache.stride(1) + (position + t) * width) * size,
                            source + (b * from.stride(0) + h * from.stride(1) + t * from.stride(2)) * size, bytes);
}

// Eight lanes at a time, since the compiler may not reorder a plain sum.
template <typename T> [[gnu::always_inline]] inline float dot(const float *a, const T *b, std::int64_t width) {
    float sums[8] = {};
    std::int64_t i = 0;
    for (; i + 8 <= width; i += 8)
        for (std::int64_t k = 0; k < 8; ++k)
            sums[k] += a[i + k] * static_cast<float>(b[i + k]);
    float sum = 0.0F;
    for (; i < width; ++i)
        sum += a[i] * static_cast<float>(b[i]);
    for (const float part : sums)
        sum += part;
    return sum;
}

// sink: one more score, minus infinity for none.
[[gnu::always_inline]] inline void softmax(float *scores, std::int64_t count, float sink) {
    float largest = sink;
    for (std::int64_t s = 0; s < count; ++s)
        largest = std::max(largest, scores[s]);
    float sum = std::exp(sink - largest);
    for (std::int64_t s = 0; s < count; ++s)
        sum += scores[s] = std::exp(scores[s] - largest);
    for (std::int64_t s = 0; s < count; ++s)
        scores[s] /= sum;
}

struct OneToken {
    const at::Tensor &q; // [B, heads, 1, D]
    const at::Tensor &keys;
    const at::Tensor &values;
    at::Tensor &out; // [B, 1, heads, D]
    HeadPairing pairing;
    std::int64_t first; // positions [first, end) are seen, but for the padding
    std::int64_t end;
    const std::vector<std::int64_t> &padding; // by sequence; may be empty
    float scaling;
    float *scores;  // [B * heads][end - first] and behind them, for each, a row of the wider head
    std::int64_t scoresEach;
    const at::Tensor *sinks; // [heads]; nullptr: none
};

// One query head of one sequence.
template <typename T>
[[gnu::always_inline]] inline void attendHeadBody(const OneToken &a, std::int64_t b, std::int64_t head) {
    const std::int64_t width = a.q.size(3);
    const std::int64_t outWidth = a.values.size(3);
    const std::int64_t first = a.padding.empty() ? a.first : std::max(a.first, a.padding[static_cast<std::size_t>(b)]);
    const std::int64_t seen = a.end - first;
    float *scores = a.scores + (b * a.q.size(1) + head) * a.scoresEach;
    float *row = scores + seen; // the query, then the sum of values
    const T *q = a.q.const_data_ptr<T>() + b * a.q.stride(0) + head * a.q.stride(1);
    for (std::int64_t i = 0; i < width; ++i)
        row[i] = static_cast<float>(q[i]);
    const T *key = a.keys.const_data_ptr<T>() + b * a.keys.stride(0) +
                   head / a.pairing.queriesPerKey * a.keys.stride(1) + first * width;
    for (std::int64_t s = 0; s < seen; ++s, key += width)
        scores[s] = dot(row, key, width) * a.scaling;
    softmax(scores, seen, a.sinks ? static_cast<float>(a.sinks->const_data_ptr<T>()[head])
                                  : -std::numeric_limits<float>::infinity());
    std::fill(row, row + outWidth, 0.0F);
    const T *value = a.values.const_data_ptr<T>() + b * a.values.stride(0) +
                     head / a.pairing.queriesPerValue * a.values.stride(1) + first * outWidth;
    for (std::int64_t s = 0; s < seen; ++s, value += outWidth)
        for (std::int64_t i = 0; i < outWidth; ++i)
            row[i] += scores[s] * static_cast<float>(value[i]);
    T *out = a.out.data_ptr<T>() + (b * a.q.size(1) + head) * outWidth;
    for (std::int64_t i = 0; i < outWidth; ++i)
        out[i] = static_cast<T>(row[i]);
}

// The same, compiled for what the machine has.
template <typename T> void attendHeadPlain(const OneToken &a, std::int64_t b, std::int64_t head) {
    attendHeadBody<T>(a, b, head);
}
#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2,fma")]] void attendHeadWide(const OneToken &a, std::int64_t b, std::int64_t head) {
    attendHeadBody<T>(a, b, head);
}
template <typename T> void attendHead(const OneToken &a, std::int64_t b, std::int64_t head) {
    static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    wide ? attendHeadWide<T>(a, b, head) : attendHeadPlain<T>(a, b, head);
}
#else
template <typename T> void attendHead(const OneToken &a, std::int64_t b, std::int64_t head) {
    attendHeadPlain<T>(a, b, head);
}
#endif

void attendOne(const OneToken &a) {
    const std::int64_t heads = a.q.size(1);
    at::parallel_for(0, a.q.size(0) * heads, 1, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i)
            switch (a.q.scalar_type()) {
            case at::kFloat: attendHead<float>(a, i / heads, i % heads); break;
            case at::kBFloat16: attendHead<at::BFloat16>(a, i / heads, i % heads); break;
            case at::kHalf: attendHead<at::Half>(a, i / heads, i % heads); break;
            default: attendHead<double>(a, i / heads, i % heads); break;
            }
    });
}

// One row of a head behind the other, as the cache holds them: a slice of wider heads is copied.
at::Tensor withContiguousRows(const at::Tensor &heads) {
    return heads.stride(3) == 1 && heads.stride(2) == heads.size(3) ? heads : heads.contiguous();
}

at::Tensor repeatHeads(const at::Tensor &heads, std::int64_t times) {
    return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

// Many tokens: the prompt. Query t stands at position first + t.
at::Tensor attendMany(const at::Tensor &q, const at::Tensor &keys, const at::Tensor &values,
                      const HeadPairing &pairing, double scaling, std::int64_t window, const KvCache &cache,
                      const at::Tensor *sinks) {
    const std::int64_t end = cache.length + q.size(2);
    const at::Tensor k = repeatHeads(keys.narrow(2, 0, end), pairing.queriesPerKey);
    const at::Tensor v = repeatHeads(values.narrow(2, 0, end), pairing.queriesPerValue);
    std::optional<at::Tensor> hidden;
    if (cache.length > 0 || window > 0 || sinks || !cache.padding.empty())
        hidden = hiddenKeys(cache.length, q.size(2), window, cache.padding);
    if (sinks)
        return attendWithSinks(q, k, v, scaling, *hidden, *sinks).transpose(1, 2);
    return at::scaled_dot_product_attention(q, k, v, hidden ? std::optional(hidden->logical_not()) : std::nullopt, 0.0,
                                            !hidden, scaling)
        .transpose(1, 2);
}

} // namespace

at::Tensor attendWithSinks(const at::Tensor &q, const at::Tensor &keys, const at::Tensor &values, double scaling,
                           const at::Tensor &hidden, const at::Tensor &sinks) {
    at::Tensor scores = at::matmul(q, keys.transpose(2, 3)) * scaling;
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    const at::Tensor sink = sinks.view({1, -1, 1, 1}).expand({q.size(0), -1, q.size(2), 1});
    const at::Tensor shares = at::softmax(at::cat({scores, sink}, -1), -1);
    return at::matmul(shares.narrow(-1, 0, scores.size(-1)), values);
}

at::Tensor hiddenKeys(std::int64_t first, std::int64_t tokens, std::int64_t window,
                      const std::vector<std::int64_t> &padding) {
    const at::Tensor query = at::arange(first, first + tokens).unsqueeze(1);
    const at::Tensor key = at::arange(first + tokens).unsqueeze(0);
    at::Tensor hidden = key > query;
    if (window > 0)
        hidden = hidden.logical_or(key <= query - window);
    if (padding.empty())
        return hidden;
    const at::Tensor begin = at::tensor(at::ArrayRef<std::int64_t>(padding)).view({-1, 1, 1, 1});
    return hidden.logical_or((key < begin).logical_and(query >= begin));
}

at::Tensor pairedQueries(const at::Tensor &q, const HeadPairing &pairing) {
    return q.size(1) == pairing.heads ? q : q.expand({-1, pairing.heads, -1, -1});
}

HeadPairing pairHeads(std::int64_t queries, std::int64_t keys, std::int64_t values, std::int64_t configuredGroups,
                      bool explicitMask, const std::string &attention) {
    const std::string met = std::to_string(queries) + " local query heads meet " + std::to_string(keys) +
                            " key and " + std::to_string(values) + " value heads";
    if (keys == 0 || values == 0)
        throw std::runtime_error(met);
    if (attention == "sdpa" && configuredGroups > 1 && !explicitMask) {
        if (queries % keys != 0 || queries % values != 0)
            throw std::runtime_error(met + ", which do not divide them");
        return {queries / keys, queries / values, queries};
    }
    const std::int64_t repeatedKeys = keys * configuredGroups, repeatedValues = values * configuredGroups;
    const std::int64_t heads = std::max({queries, repeatedKeys, repeatedValues});
    for (const std::int64_t count : {queries, repeatedKeys, repeatedValues})
        if (count != heads && count != 1)
            throw std::runtime_error(met + ", each repeated " + std::to_string(configuredGroups) + " times");
    return {repeatedKeys == 1 ? heads : configuredGroups, repeatedValues == 1 ? heads : configuredGroups, heads};
}

void kernels::cacheUpdate(const Instruction &instruction, Execution &execution) {
    const std::size_t layer = execution.constants(instruction).layer;
    KvCache &cache = *execution.cache;
    if (cache.layers.size() <= layer)
        cache.layers.resize(layer + 1);
    store(execution.input(instruction, 0), cache.layers[layer].keys, execution.position(), cache.capacity);
    store(execution.input(instruction, 1), cache.layers[layer].values, execution.position(), cache.capacity);
    // The whole cache; the attention knows how much of it is filled.
    execution.slot(instruction.out[0]) = cache.layers[layer].keys;
    execution.slot(instruction.out[1]) = cache.layers[layer].values;
}

void kernels::attend(const Instruction &instruction, Execution &execution) {
    const ModuleConstants &self = execution.constants(instruction);
    const KvCache &cache = *execution.cache;
    const at::Tensor keys = withContiguousRows(execution.input(instruction, 1));
    const at::Tensor values = withContiguousRows(execution.input(instruction, 2));
    const bool slidingMask = self.window > 0 && execution.positions() >= self.window;
    const HeadPairing pairing =
        pairHeads(execution.input(instruction, 0).size(1), keys.size(1), values.size(1), self.groups,
                  slidingMask || !cache.padding.empty(), execution.model.attention);
    const at::Tensor q = pairedQueries(execution.input(instruction, 0), pairing);
    if (execution.tokens > 1) {
        execution.slot(instruction.out[0]) =
            attendMany(q, keys, values, pairing, self.scaling, slidingMask ? self.window : 0, cache,
                       execution.parameter(instruction, 0));
        return;
    }
    at::Tensor &out = execution.output(instruction, 0, {q.size(0), 1, q.size(1), values.size(3)}, q.scalar_type());
    const std::int64_t end = execution.positions();
    const std::int64_t first = self.window > 0 ? std::max<std::int64_t>(0, end - self.window) : 0;
    // Grows once in so many tokens.
    const std::int64_t room = (end - first + 1023) / 1024 * 1024;
    const std::int64_t each = room + std::max(q.size(3), values.size(3));
    const auto needed = static_cast<std::size_t>(q.size(0) * q.size(1) * each);
    if (execution.scores.size() < needed)
        execution.scores.resize(needed);
    attendOne({q, keys, values, out, pairing, first, end, cache.padding, static_cast<float>(self.scaling),
               execution.scores.data(), each, execution.parameter(instruction, 0)});
}

} // namespace tpscope
