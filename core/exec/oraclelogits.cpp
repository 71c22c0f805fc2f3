// SPDX-License-Identifier: GPL-3.0-or-later
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <limits>

#include "exec/exchange.h"
#include "exec/oraclejob.h"
#include "exec/oracletrace.h"
#include "run/oraclemessages.h"
#include "run/prompts.h"

namespace tpscope {
namespace {

// A model as one rank, or the one rank of the reference, holds it. Not movable: its parts refer to each other.
class Side {
public:
    Side(const OracleJob &job, const ResolvedPlan &plan, const WeightSource &weights, ProcessGroup *group)
        : m_job(job), m_plan(plan), m_group(group), m_layout(shardLayout(job.subject.model, plan)),
          m_list(valueOf(lower(job.subject.model, plan, m_layout))),
          m_weights(valueOf(ShardedModel::load(job.subject.model, m_layout, Rank(group ? group->rank() : 0), weights,
                                               together(), [&job](const std::string &) { job.beat(); }))),
          m_execution(bind(m_list)) {}
    Side(const Side &) = delete;
    Side &operator=(const Side &) = delete;

    const ExecutionModel &execution() const { return m_execution; }

    // The values of every step, with no product fused into another.
    std::vector<TracedValue> trace() const {
        const InstructionList list = valueOf(lower(m_job.subject.model, m_plan, m_layout, {.fuse = false}));
        const ExecutionModel execution = bind(list);
        return traceValues(execution, m_job.request.config.inputIds, m_job.clock, m_job.outlet.page());
    }

private:
    std::vector<std::vector<std::string>> together() const {
        std::vector<std::vector<std::string>> names;
        for (const auto &group : m_list.together) {
            names.emplace_back();
            for (const int parameter : group)
                names.back().push_back(m_list.parameters[static_cast<std::size_t>(parameter)]);
        }
        return names;
    }
    ExecutionModel bind(const InstructionList &list) const {
        return valueOf(ExecutionModel::make(m_job.subject.model, list, m_weights, m_group,
                                            m_job.request.config.attention));
    }

    const OracleJob &m_job;
    const ResolvedPlan m_plan;
    ProcessGroup *m_group;
    const ShardLayout m_layout;
    const InstructionList m_list;
    const ShardedModel m_weights;
    const ExecutionModel m_execution;
};

using Rows = std::vector<std::vector<std::int64_t>>; // [step][row of the batch]

// Logits of the prefill [B,T,V] and of every step after it [B,1,V]. ids: fed to the steps; chosen greedily where empty.
std::vector<at::Tensor> logitsOf(const OracleJob &job, const ExecutionModel &model, Rows &ids) {
    const RunConfig &config = job.request.config;
    const PromptBatch prompts = PromptBatch::of(config.inputIds);
    KvCache cache;
    cache.padding = prompts.padding;
    cache.capacity = prompts.tokens + job.request.decodeSteps;
    cache.layers.resize(static_cast<std::size_t>(model.description.dims.layers));
    const auto kept = [](const at::Tensor &logits) {
        return logits.to(at::kFloat).clone(at::MemoryFormat::Contiguous);
    };
    const bool chooses = ids.empty();
    std::vector<at::Tensor> out{
        kept(Inference(model, prompts.rows, prompts.tokens, false, job.clock, job.outlet.page())
                                         .run(prompts.ids, cache, true, -1))};
    Inference step(model, prompts.rows, 1, true, job.clock, job.outlet.page());
    for (int i = 0; i < job.request.decodeSteps; ++i) {
        if (chooses) {
            const at::Tensor best = out.back().select(1, out.back().size(1) - 1).argmax(-1).contiguous();
            const auto *first = best.const_data_ptr<std::int64_t>();
            ids.emplace_back(first, first + prompts.rows);
        }
        out.push_back(kept(step.run(ids[static_cast<std::size_t>(i)], cache, false, i)));
    }
    return out;
}

double worst(const at::Tensor &difference) {
    if (difference.numel() == 0)
        return 0.0;
    const double error = difference.abs().max().item<double>();
    return std::isfinite(error) ? error : INFINITY;
}

struct Compared {
    LogitComparison result;
    int shapeRank = -1; // whose shape differs
};

// Every rank with rank 0's reference.
Compared compare(const OracleJob &job, const std::vector<at::Tensor> &reference, const std::vector<at::Tensor> &found) {
    Compared out;
    LogitComparison &result = out.result;
    double largest = 0.0;
    std::vector<double> errors;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const at::Tensor expected =
            exchange::ofFirst(reference.empty() ? at::Tensor() : reference[i], at::kFloat, job.group);
        const bool same = expected.sizes() == found[i].sizes();
        largest = std::max(largest, worst(expected));
        const auto rows = exchange::ofAll({same ? 0.0 : 1.0, same ? worst(found[i] - expected) : 0.0,
                                           static_cast<double>(found[i].size(-1))}, job.group);
        double error = 0.0;
        for (std::size_t rank = 0; rank < rows.size(); ++rank) {
            error = std::max(error, rows[rank][1]);
            if (rows[rank][0] != 0.0 && !std::exchange(result.shapesDiffer, true)) {
                out.shapeRank = static_cast<int>(rank);
                result.foundShape = expected.sizes().vec();
                result.foundShape.back() = static_cast<std::int64_t>(rows[rank][2]);
            }
        }
        errors.push_back(error);
        if (i == 0)
            result.expectedShape = expected.sizes().vec();
    }
    if (result.foundShape.empty())
        result.foundShape = result.expectedShape;
    result.tolerance = oracleTolerance(job.subject.model.dtype) * largest;
    for (std::size_t i = 0; i < errors.size(); ++i) {
        result.maxAbsError = std::max(result.maxAbsError, errors[i]);
        if (!result.wrongStep && (result.shapesDiffer || errors[i] > result.tolerance))
            result.wrongStep = static_cast<int>(i) - 1;
    }
    return out;
}

// Of logits that only differ in shape: every value on the way was right, the last one was not put together.
Divergence missingGather(const OracleJob &job, const Compared &compared, const ExecutionModel &execution) {
    Divergence out;
    for (const Instruction &instruction : execution.list.instructions)
        if (std::ranges::find(instruction.out, execution.list.logits) != instruction.out.end()) {
            const Module &module = job.subject.model.tree.at(instruction.module);
            out.module = module.name.empty() ? module.className : module.name;
            out.operation = instruction.operation ? std::string(name(instruction.operation->kind)) : "all_gather";
        }
    out.rank = std::max(0, compared.shapeRank);
    out.expectedShape = compared.result.expectedShape;
    out.foundShape = compared.result.foundShape;
    return out;
}

std::unique_ptr<Side> planSide(const OracleJob &job, const WeightSource &weights) {
    try {
        return std::make_unique<Side>(job, job.subject.plan, weights, job.group);
    } catch (const Stopped &stopped) {
        if (stopped.error.code != ErrorCode::CannotRun)
            throw;
        planFails(job, oracle::forwardStage, stopped.error);
    }
}

std::vector<at::Tensor> planLogits(const OracleJob &job, const ExecutionModel &model, Rows &ids) {
    try {
        return logitsOf(job, model, ids);
    } catch (const std::exception &error) {
        planFails(job, oracle::forwardStage, error);
    }
}

Rows idsOfFirst(const OracleJob &job, const Rows &mine) {
    const std::size_t batch = job.request.config.inputIds.size();
    std::vector<double> flat(batch * static_cast<std::size_t>(job.request.decodeSteps));
    for (std::size_t i = 0; i < mine.size(); ++i)
        std::ranges::copy(mine[i], flat.begin() + static_cast<std::ptrdiff_t>(i * batch));
    if (flat.empty())
        return {};
    const std::vector<double> all = exchange::ofAll(flat, job.group)[0];
    Rows ids;
    for (std::size_t i = 0; i < all.size(); i += batch)
        ids.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                         all.begin() + static_cast<std::ptrdiff_t>(i + batch));
    return ids;
}

} // namespace

bool compareLogits(const OracleJob &job) {
    const c10::InferenceMode inference;
    const WeightSource weights =
        valueOf(WeightSource::open(job.subject.source, job.subject.model, job.request.config.seed));
    std::unique_ptr<Side> reference;
    std::vector<at::Tensor> expected;
    Rows ids;
    job.say(RankPhase::Prefill, "prefill and " + std::to_string(job.request.decodeSteps) + " steps on one rank");
    if (job.rank == 0) {
        reference = std::make_unique<Side>(job, job.subject.planOfOneRank(), weights, nullptr);
        expected = logitsOf(job, reference->execution(), ids);
    }
    ids = idsOfFirst(job, ids);
    job.checkStop();
    job.say(RankPhase::Prefill, "the same on " + std::to_string(job.ranks()) + " ranks");
    const std::unique_ptr<Side> own = planSide(job, weights);
    const Compared compared = compare(job, expected, planLogits(job, own->execution(), ids));
    std::optional<Divergence> divergence;
    if (!compared.result.right()) {
        job.say(RankPhase::Report, "looking for the first module that diverges");
        const std::vector<TracedValue> truth = reference ? reference->trace() : std::vector<TracedValue>{};
        divergence = firstDivergence(truth, own->trace(), job.subject.model, job.group);
        if (!divergence && compared.result.shapesDiffer)
            divergence = missingGather(job, compared, own->execution());
    }
    if (job.rank == 0)
        job.outlet.send(oracle::logitsToJson(compared.result, divergence));
    return compared.result.right();
}

} // namespace tpscope
