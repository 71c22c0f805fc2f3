// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "arch/family.h"
#include "exec/training.h"
#include "model/modelsource.h"
#include "plan/resolvedplan.h"

// Ranks of one model as threads of a test.
namespace tpscope::test {

struct Subject {
    ModelDescription model;
    WeightSource weights;
    std::optional<BuiltinPlan> builtin;

    ResolvedPlan plan(int tp, const PlanChoice &choice = {}) const {
        return resolvePlan(model, choice, builtin ? &*builtin : nullptr, tp);
    }
};

// Throws std::runtime_error with the error's text.
template <typename T> T valueOf(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().text());
    return std::move(*result);
}

inline Subject openSubject(const std::string &folder) {
    const ModelSource source = valueOf(findModel(folder));
    ModelDescription model = valueOf(describe(valueOf(ModelConfig::load(source.configPath.string()))));
    WeightSource weights = valueOf(WeightSource::open(source, model, 0));
    auto builtin = loadBuiltinPlan(model.modelType);
    return {std::move(model), std::move(weights),
            builtin ? std::optional<BuiltinPlan>(std::move(*builtin)) : std::nullopt};
}

// By rank.
inline std::vector<Result<TrainingResult>> train(const Subject &subject, const ResolvedPlan &plan,
                                                 const TrainingRequest &request,
                                                 Collectives collectives = Collectives::Gloo,
                                                 std::shared_ptr<ProcessGroup::Meeting> meeting = nullptr) {
    const int tp = plan.tp;
    std::vector<Result<TrainingResult>> results(static_cast<std::size_t>(tp),
                                                fail(ErrorCode::RunFailed, "did not run"));
    if (tp == 1) {
        results[0] = trainRank(subject.model, plan, subject.weights, nullptr, request);
        return results;
    }
    if (!meeting)
        meeting = ProcessGroup::makeMeeting();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < tp; ++rank)
        threads.emplace_back([&, rank] {
            const auto group = ProcessGroup::meet(*meeting, {rank, tp, collectives, std::chrono::seconds(60)});
            results[static_cast<std::size_t>(rank)] =
                trainRank(subject.model, plan, subject.weights, group.get(), request);
        });
    threads.clear(); // joins
    return results;
}

// What a rank holds of a whole parameter's values, row-major.
inline std::vector<float> sliceOf(const ParameterShard &shard, std::size_t rank, const std::vector<float> &whole) {
    if (shard.dim < 0)
        return whole;
    std::int64_t inner = 1;
    for (std::size_t d = static_cast<std::size_t>(shard.dim) + 1; d < shard.globalShape.size(); ++d)
        inner *= shard.globalShape[d];
    const std::int64_t size = shard.globalShape[static_cast<std::size_t>(shard.dim)];
    std::vector<float> slice;
    for (std::int64_t outer = 0; outer * size * inner < static_cast<std::int64_t>(whole.size()); ++outer)
        for (const Interval &held : shard.held[rank])
            slice.insert(slice.end(), whole.begin() + (outer * size + held.begin) * inner,
                         whole.begin() + (outer * size + held.end) * inner);
    return slice;
}

} // namespace tpscope::test
