// SPDX-License-Identifier: GPL-3.0-or-later
#include <ATen/ATen.h>

#include "exec/exchange.h"
#include "exec/oraclejob.h"
#include "exec/training.h"
#include "run/oraclemessages.h"

namespace tpscope {
namespace {

TrainingRequest requestOf(const OracleJob &job) {
    TrainingRequest request;
    request.ids = job.request.config.inputIds;
    request.trainable = job.request.trainable;
    request.attention = job.request.config.attention;
    request.gradientCheckpointing = job.request.gradientCheckpointing;
    request.onModule = [&job](ModuleIndex module) {
        job.outlet.page().status().module.store(static_cast<std::int32_t>(module.value), std::memory_order_relaxed);
        job.beat();
    };
    return request;
}

// One backward on one rank: rank 0 alone.
TrainingResult referenceOf(const OracleJob &job, const WeightSource &weights) {
    if (job.rank != 0)
        return {};
    TrainingRequest request = requestOf(job);
    request.hooks = HookMode::None;
    return valueOf(trainRank(job.subject.model, job.subject.planOfOneRank(), weights, nullptr, request));
}

TrainingResult trainedOf(const OracleJob &job, const WeightSource &weights) {
    TrainingRequest request = requestOf(job);
    request.hooks = job.request.config.hooks;
    request.microSteps = job.request.microSteps;
    auto result = trainRank(job.subject.model, job.subject.plan, weights, job.group, request);
    if (!result)
        planFails(job, oracle::trainingStage, result.error());
    return std::move(*result);
}

at::Tensor tensorOf(const LocalGradient &gradient, const Shape &shape) {
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    if (!gradient.trained) // nothing flowed into it
        return at::zeros(sizes, at::kDouble);
    return at::from_blob(const_cast<float *>(gradient.value.data()), sizes, at::kFloat).to(at::kDouble);
}

// This rank's slice of a whole tensor.
at::Tensor sliceOf(const at::Tensor &whole, const ParameterShard &shard, std::size_t rank) {
    if (shard.dim < 0)
        return whole;
    std::vector<at::Tensor> parts;
    for (const Interval &held : shard.held[rank])
        parts.push_back(whole.narrow(shard.dim, held.begin, held.size()));
    return parts.empty() ? whole.narrow(shard.dim, 0, 0) : at::cat(parts, shard.dim);
}

double scalarProduct(const at::Tensor &a, const at::Tensor &b) { return (a * b).sum().item<double>(); }
double squaredNorm(const at::Tensor &a) { return scalarProduct(a, a); }

GradientFacts factsOf(const OracleJob &job, const ParameterShard &shard, const at::Tensor &reference,
                      const LocalGradient &own) {
    const auto rank = static_cast<std::size_t>(job.rank);
    const at::Tensor truth = sliceOf(reference, shard, rank) * job.request.microSteps;
    const at::Tensor gradient = tensorOf(own, shard.localShapes[rank]);
    const at::Tensor error = gradient - truth;
    GradientFacts facts;
    facts.name = shard.name;
    facts.whole = shard.dim < 0;
    const ParallelStyle *style = job.subject.plan.styleOfParameter(shard.name);
    facts.asksSync = job.ranks() > 1 && style && style->hooksParameters();
    if (facts.whole) {
        const at::Tensor sum = exchange::sum(gradient, job.group);
        facts.sumError = squaredNorm(sum - truth);
        for (const auto &row : exchange::ofAll({squaredNorm(gradient - sum / job.ranks())}, job.group))
            facts.spread = std::max(facts.spread, row[0]);
    }
    const double largest = error.numel() ? error.abs().max().item<double>() : 0.0;
    for (const auto &row : exchange::ofAll({scalarProduct(gradient, truth), squaredNorm(truth), squaredNorm(gradient),
                                            squaredNorm(error), largest, static_cast<double>(own.reductions)},
                                           job.group))
        facts.ranks.push_back({row[0], row[1], row[2], row[3], row[4], static_cast<int>(row[5])});
    return facts;
}

} // namespace

void compareGradients(const OracleJob &job) {
    const WeightSource weights =
        valueOf(WeightSource::open(job.subject.source, job.subject.model, job.request.config.seed));
    const ShardLayout layout = shardLayout(job.subject.model, job.subject.plan);
    job.say(RankPhase::Train, "one backward on one rank");
    const TrainingResult reference = referenceOf(job, weights);
    job.checkStop();
    // Nobody trains before the reference stands: a plan that raises would take it along.
    exchange::ofAll({0.0}, job.group);
    job.say(RankPhase::Train, std::to_string(job.request.microSteps) +
                                  (job.request.microSteps == 1 ? " backward on " : " backwards on ") +
                                  std::to_string(job.ranks()) + " ranks");
    const TrainingResult trained = trainedOf(job, weights);
    job.checkStop();
    job.say(RankPhase::Report, "gradients are compared");
    nlohmann::json message{{"type", oracle::gradientsMessage},
                           {"parameters", nlohmann::json::array()},
                           {"losses", trained.losses},
                           {"true_loss", reference.losses.empty() ? 0.0 : reference.losses.front()},
                           {"collectives", toJson(trained.collectives)}};
    for (const ParameterShard &shard : layout.parameters) {
        const std::vector<std::int64_t> shape(shard.globalShape.begin(), shard.globalShape.end());
        LocalGradient whole;
        if (job.rank == 0)
            whole = reference.gradients.at(shard.name);
        if (exchange::ofAll({whole.trained ? 1.0 : 0.0}, job.group)[0][0] == 0.0)
            continue; // does not train
        const at::Tensor mine = job.rank == 0 ? tensorOf(whole, shard.globalShape) : at::Tensor();
        const GradientFacts facts = factsOf(job, shard, exchange::ofFirst(mine, shape, at::kDouble, job.group),
                                            trained.gradients.at(shard.name));
        message["parameters"].push_back(toJson(facts));
        job.beat();
    }
    if (job.rank == 0)
        job.outlet.send(message);
}

} // namespace tpscope
