// SPDX-License-Identifier: GPL-3.0-or-later
#include "nativeoutcome.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>

#include "exec/inference.h"

namespace tpscope::test {
namespace {

// A page of a rank that nobody reads.
struct Page {
    RankStatus status;
    std::vector<Event> slots = std::vector<Event>(64);
    RankPage page() { return {&status, slots.data(), slots.size()}; }
};

Result<std::vector<float>> prefill(const Subject &subject, const ResolvedPlan &plan, ProcessGroup *group,
                                   const std::vector<std::int64_t> &ids) {
    const c10::InferenceMode inference;
    const ShardLayout layout = shardLayout(subject.model, plan);
    const auto list = lower(subject.model, plan, layout, {.fuse = false});
    if (!list)
        return tl::unexpected(list.error());
    const auto shards = ShardedModel::load(subject.model, layout, Rank(group ? group->rank() : 0), subject.weights, {},
                                           [](const auto &) {});
    if (!shards)
        return tl::unexpected(shards.error());
    const auto model = ExecutionModel::make(subject.model, *list, *shards, group, "");
    if (!model)
        return tl::unexpected(model.error());
    Page page;
    const RunClock clock;
    KvCache cache;
    cache.capacity = static_cast<std::int64_t>(ids.size());
    cache.layers.resize(static_cast<std::size_t>(subject.model.dims.layers));
    try {
        Inference run(*model, 1, cache.capacity, false, clock, page.page());
        const at::Tensor logits = run.run(ids, cache, true, -1).to(at::kFloat).contiguous();
        std::vector<float> out(static_cast<std::size_t>(logits.numel()));
        if (!out.empty())
            std::memcpy(out.data(), logits.const_data_ptr<float>(), out.size() * sizeof(float));
        return out;
    } catch (const std::exception &error) {
        return fail(ErrorCode::RunFailed, error.what());
    }
}

std::vector<Result<std::vector<float>>> prefillRanks(const Subject &subject, const ResolvedPlan &plan,
                                                     const std::vector<std::int64_t> &ids) {
    std::vector<Result<std::vector<float>>> results(static_cast<std::size_t>(plan.tp));
    const auto meeting = ProcessGroup::makeMeetingInMemory(plan.tp);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < plan.tp; ++rank)
        threads.emplace_back([&, rank] {
            const auto group =
                ProcessGroup::meet(*meeting, {rank, plan.tp, Collectives::Gloo, std::chrono::seconds(60)});
            results[static_cast<std::size_t>(rank)] = prefill(subject, plan, group.get(), ids);
        });
    threads.clear(); // joins
    return results;
}

double norm(const std::vector<float> &values) {
    double sum = 0.0;
    for (const float value : values)
        sum += double(value) * value;
    return std::sqrt(sum);
}

double largestDifference(const std::vector<float> &a, const std::vector<float> &b) {
    double largest = a.size() == b.size() ? 0.0 : INFINITY;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        largest = std::isfinite(a[i]) ? std::max(largest, std::abs(double(a[i]) - b[i])) : INFINITY;
    return largest;
}

// |a - b|; infinite where the sizes differ.
double distance(std::vector<float> a, const std::vector<float> &b) {
    if (a.size() != b.size())
        return INFINITY;
    for (std::size_t i = 0; i < a.size(); ++i)
        a[i] -= b[i];
    return norm(a);
}

} // namespace

NativeJudge::NativeJudge(const std::string &folder, std::vector<std::int64_t> ids)
    : m_subject(openSubject(folder)), m_ids(std::move(ids)) {
    m_logits = valueOf(prefill(m_subject, m_subject.plan(1), nullptr, m_ids));
    TrainingRequest request;
    request.ids = {m_ids};
    request.hooks = HookMode::None;
    m_gradients = valueOf(trainRank(m_subject.model, m_subject.plan(1), m_subject.weights, nullptr, request)).gradients;
    for (const auto &[name, gradient] : m_gradients)
        m_largestGradient = std::max(m_largestGradient, norm(gradient.value));
}

NativeOutcome NativeJudge::judge(const ResolvedPlan &plan) const {
    if (plan.tp == 1)
        return {};
    NativeOutcome out;
    double largest = 0.0;
    for (const auto &rank : prefillRanks(m_subject, plan, m_ids)) {
        if (!rank) {
            // What a rank says because its peers are gone is worth less.
            if (rank.error().code == ErrorCode::Unsupported)
                return {Outcome::NotChecked, rank.error().text(), {}};
            if (out.outcome != Outcome::ForwardError || rank.error().message.find("peer") == std::string::npos)
                out.why = rank.error().text();
            out.outcome = Outcome::ForwardError;
            continue;
        }
        largest = std::max(largest, largestDifference(*rank, m_logits));
    }
    if (out.outcome == Outcome::ForwardError)
        return out;
    if (!(largest < 1e-3)) // as the recorded plans were judged
        return {Outcome::WrongLogits, "logits off by " + std::to_string(largest), {}};
    return judgeGradients(plan);
}

NativeOutcome NativeJudge::judgeGradients(const ResolvedPlan &plan) const {
    TrainingRequest request;
    request.ids = {m_ids};
    const auto ranks = train(m_subject, plan, request, Collectives::Gloo, ProcessGroup::makeMeetingInMemory(plan.tp));
    NativeOutcome out;
    for (const auto &rank : ranks)
        if (!rank) {
            out.outcome = Outcome::WrongGradients;
            out.why += rank.error().text() + "; ";
        }
    if (out.outcome != Outcome::Ok)
        return out;
    for (const ParameterShard &shard : shardLayout(m_subject.model, plan).parameters) {
        const LocalGradient &truth = m_gradients.at(shard.name);
        for (std::size_t rank = 0; truth.trained && rank < ranks.size(); ++rank) {
            std::vector<float> found = ranks[rank]->gradients.at(shard.name).value;
            const std::vector<float> expected = sliceOf(shard, rank, truth.value);
            if (!ranks[rank]->gradients.at(shard.name).trained)
                found.assign(expected.size(), 0.0F);
            const double error = distance(found, expected);
            // Some gradients are zero by mathematics and noise in floats.
            if (error > 1e-3 * norm(truth.value) / std::sqrt(double(ranks.size())) && error > 1e-6 * m_largestGradient &&
                out.wrongParameters.insert(shard.name).second)
                out.why += shard.name + " off by " + std::to_string(error / norm(truth.value)) + " on rank " +
                           std::to_string(rank) + "; ";
        }
    }
    if (!out.wrongParameters.empty())
        out.outcome = Outcome::WrongGradients;
    return out;
}

} // namespace tpscope::test
