// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/training.h"

#include <ATen/ATen.h>

#include <cstring>
#include <fnmatch.h>

#include "exec/trainingkernels.h"

namespace tpscope {
namespace {

bool trains(const std::string &parameter, const std::vector<std::string> &patterns) {
    if (patterns.empty())
        return true;
    for (const std::string &pattern : patterns)
        if (::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0 || pattern == genericName(parameter))
            return true;
    return false;
}

// As ForCausalLMLoss: token n is judged by token n + 1; the last has no label.
at::Tensor lossOf(const at::Tensor &logits, const at::Tensor &ids) {
    constexpr std::int64_t ignored = -100;
    const at::Tensor labels = at::constant_pad_nd(ids, {0, 1}, ignored).narrow(1, 1, ids.size(1)).reshape({-1});
    return at::cross_entropy_loss(logits.to(at::kFloat).view({-1, logits.size(-1)}), labels, {},
                                  at::Reduction::Mean, ignored);
}

at::Tensor idsTensor(const std::vector<std::vector<std::int64_t>> &ids) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(ids[0].size())},
                                  at::kLong);
    auto *to = tensor.data_ptr<std::int64_t>();
    for (const auto &row : ids)
        to = std::ranges::copy(row, to).out;
    return tensor;
}

// Thrown where a forward or backward raises; says where.
struct StepFailed {
    std::string message;
};

at::Tensor forward(const ExecutionModel &model, GradientHooks &hooks, const at::Tensor &ids,
                   const TrainingRequest &request) {
    TrainingForward state{model, hooks, ids.size(1), {}};
    state.slots.resize(static_cast<std::size_t>(model.list.slotCount));
    state.slot(model.list.ids) = ids;
    for (const Instruction &instruction : model.list.instructions) {
        request.onModule(instruction.module);
        try {
            trainingKernelOf(instruction)(instruction, state);
        } catch (const std::exception &error) {
            const std::string what = error.what();
            throw StepFailed{"the forward fails in " + model.description.tree.at(instruction.module).name + ": " +
                             what.substr(0, what.find('\n'))};
        }
    }
    return state.slot(model.list.logits);
}

void backward(const at::Tensor &loss) {
    try {
        loss.backward();
    } catch (const std::exception &error) {
        const std::string what = error.what();
        throw StepFailed{"the backward fails: " + what.substr(0, what.find('\n'))};
    }
}

LocalGradient gradientOf(const LocalParameter &parameter, const GradientHooks &hooks) {
    LocalGradient out;
    const at::Tensor &gradient = parameter.tensor.grad();
    if (!gradient.defined())
        return out;
    out.trained = true;
    const at::Tensor flat = gradient.detach().to(at::kFloat).contiguous().view({-1});
    out.value.resize(static_cast<std::size_t>(flat.numel()));
    if (!out.value.empty())
        std::memcpy(out.value.data(), flat.const_data_ptr<float>(), out.value.size() * sizeof(float));
    const auto reductions = hooks.reductions().find(parameter.name);
    out.reductions = reductions == hooks.reductions().end() ? 0 : reductions->second;
    return out;
}

// Styles that hold a module's parameters as replicated DTensors.
std::vector<std::string> summedByDTensor(const ModelDescription &model, const ResolvedPlan &plan) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < model.tree.modules.size() && plan.tp > 1; ++i) {
        const ParallelStyle *style = plan.styleOfModule(ModuleIndex(i));
        const Module &module = model.tree.modules[i];
        if (style && style->tokenShards)
            for (const Parameter &parameter : module.parameters)
                names.push_back(module.name.empty() ? parameter.name : module.name + "." + parameter.name);
    }
    return names;
}

TrainingResult steps(const ExecutionModel &model, GradientHooks &hooks, const TrainingRequest &request) {
    TrainingResult result;
    result.hooks.afterLoad = hooks.registered();
    const at::Tensor ids = idsTensor(request.ids);
    for (int step = 0; step < request.microSteps; ++step) {
        const at::Tensor loss = lossOf(forward(model, hooks, ids, request), ids);
        if (step == 0)
            result.hooks.afterFirstForward = hooks.registered();
        backward(loss);
        result.losses.push_back(loss.item<double>());
    }
    result.hooks.afterSteps = hooks.registered();
    for (const LocalParameter &parameter : model.weights.parameters())
        result.gradients.emplace(parameter.name, gradientOf(parameter, hooks));
    return result;
}

} // namespace

Result<TrainingResult> trainRank(const ModelDescription &model, const ResolvedPlan &plan, const WeightSource &weights,
                                 ProcessGroup *group, const TrainingRequest &request) {
    const ShardLayout layout = shardLayout(model, plan);
    const auto list = lower(model, plan, layout, {.training = true});
    if (!list)
        return tl::unexpected(list.error());
    GradientHooks hooks(request.hooks, hookSites(model, plan, request.hooks), group, [](ModuleIndex) {});
    auto shards = ShardedModel::load(model, layout, Rank(group ? group->rank() : 0), weights, {}, [](const auto &) {});
    if (!shards)
        return tl::unexpected(shards.error());
    for (const LocalParameter &parameter : shards->parameters())
        at::Tensor(parameter.tensor).requires_grad_(trains(parameter.name, request.trainable));
    hooks.loaded(*shards);
    for (const std::string &parameter : summedByDTensor(model, plan))
        if (const LocalParameter *local = shards->find(parameter))
            hooks.sumByItself(*local);
    const auto execution = ExecutionModel::make(model, *list, *shards, group, request.attention);
    if (!execution)
        return tl::unexpected(execution.error());
    try {
        return steps(*execution, hooks, request);
    } catch (const StepFailed &failed) {
        return fail(ErrorCode::RunFailed, failed.message);
    } catch (const std::exception &error) {
        return fail(ErrorCode::RunFailed, error.what());
    }
}

} // namespace tpscope
