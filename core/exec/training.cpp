// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/training.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include "exec/checkpointing.h"
#include "exec/trainingkernels.h"
#include "model/trainable.h"
#include "run/prompts.h"

namespace tpscope {
namespace {

// As ForCausalLMLoss: token n is judged by token n + 1; the last has no label. Neither have padding and, since nothing
// real precedes it, the first token behind padding.
at::Tensor lossOf(const at::Tensor &logits, const at::Tensor &ids, const std::vector<std::int64_t> &padding) {
    constexpr std::int64_t ignored = -100;
    at::Tensor labels = ids;
    if (!padding.empty())
        labels = ids.masked_fill(at::arange(ids.size(1)).unsqueeze(0) <=
                                     at::tensor(at::ArrayRef<std::int64_t>(padding)).unsqueeze(1),
                                 ignored);
    labels = at::constant_pad_nd(labels, {0, 1}, ignored).narrow(1, 1, ids.size(1)).reshape({-1});
    return at::cross_entropy_loss(logits.to(at::kFloat).view({-1, logits.size(-1)}), labels, {},
                                  at::Reduction::Mean, ignored);
}

// Thrown where a forward or backward raises; says where.
struct StepFailed {
    std::string message;
};

void execute(std::size_t begin, std::size_t end, TrainingForward &state, const TrainingRequest &request) {
    for (std::size_t i = begin; i < end; ++i) {
        const Instruction &instruction = state.model.list.instructions[i];
        request.onModule(instruction.module);
        try {
            trainingKernelOf(instruction)(instruction, state);
        } catch (const std::exception &error) {
            const std::string what = error.what();
            throw StepFailed{"the forward fails in " + state.model.description.tree.at(instruction.module).name + ": " +
                             what.substr(0, what.find('\n'))};
        }
    }
}

// Instructions [begin, end) of one decoder layer: what they read from before them and what is read after them.
struct LayerPart {
    std::size_t begin, end;
    std::vector<int> in, out; // slots
};

LayerPart layerFrom(std::size_t begin, const InstructionList &list) {
    const std::vector<Instruction> &all = list.instructions;
    LayerPart part{begin, begin, {}, {}};
    while (part.end < all.size() && all[part.end].layer == all[begin].layer)
        ++part.end;
    std::set<int> written, read;
    for (std::size_t i = begin; i < part.end; ++i) {
        for (const int slot : all[i].in)
            if (slot != Instruction::none && !written.contains(slot))
                read.insert(slot);
        written.insert(all[i].out.begin(), all[i].out.end());
    }
    std::set<int> wanted{list.logits};
    for (std::size_t i = part.end; i < all.size(); ++i)
        wanted.insert(all[i].in.begin(), all[i].in.end());
    part.in.assign(read.begin(), read.end());
    std::ranges::set_intersection(written, wanted, std::back_inserter(part.out));
    return part;
}

void checkpointLayer(const LayerPart &part, TrainingForward &state, const TrainingRequest &request) {
    const auto run = [part, &model = state.model, &hooks = state.hooks, tokens = state.tokens, padding = state.padding,
                      &request](const std::vector<at::Tensor> &inputs) {
        TrainingForward again{model, hooks, tokens, padding, {}};
        again.slots.resize(static_cast<std::size_t>(model.list.slotCount));
        for (std::size_t i = 0; i < inputs.size(); ++i)
            again.slot(part.in[i]) = inputs[i];
        execute(part.begin, part.end, again, request);
        std::vector<at::Tensor> out;
        for (const int slot : part.out)
            out.push_back(again.slot(slot));
        return out;
    };
    std::vector<at::Tensor> inputs;
    for (const int slot : part.in)
        inputs.push_back(state.slot(slot));
    const std::vector<at::Tensor> outputs = checkpointed(run, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        state.slot(part.out[i]) = outputs[i];
}

at::Tensor forward(const ExecutionModel &model, GradientHooks &hooks, const at::Tensor &ids,
                   const std::vector<std::int64_t> &padding, const TrainingRequest &request) {
    TrainingForward state{model, hooks, ids.size(1), padding, {}};
    state.slots.resize(static_cast<std::size_t>(model.list.slotCount));
    state.slot(model.list.ids) = ids;
    const std::vector<Instruction> &all = model.list.instructions;
    for (std::size_t i = 0; i < all.size();) {
        if (request.gradientCheckpointing && all[i].layer >= 0) {
            const LayerPart part = layerFrom(i, model.list);
            checkpointLayer(part, state, request);
            i = part.end;
        } else {
            execute(i, i + 1, state, request);
            ++i;
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

void clearGradients(const ShardedModel &weights, TrainingRequest::Between how) {
    using Between = TrainingRequest::Between;
    for (const LocalParameter &parameter : weights.parameters()) {
        at::Tensor &gradient = parameter.tensor.mutable_grad();
        if (how == Between::SetToNone)
            gradient.reset();
        else if (how == Between::SetToZero && gradient.defined())
            gradient.zero_();
    }
}

TrainingResult steps(const ExecutionModel &model, GradientHooks &hooks, const TrainingRequest &request) {
    TrainingResult result;
    result.hooks.afterLoad = hooks.registered();
    if (model.group)
        model.group->startCounting();
    const PromptBatch prompts = PromptBatch::of(request.ids);
    const at::Tensor ids = at::tensor(at::ArrayRef<std::int64_t>(prompts.ids)).view({prompts.rows, prompts.tokens});
    for (int step = 0; step < request.microSteps; ++step) {
        if (step > 0)
            clearGradients(model.weights, request.between);
        at::Tensor loss;
        for (int i = 0; i < request.forwardsPerBackward; ++i) {
            const at::Tensor own = lossOf(forward(model, hooks, ids, prompts.padding, request), ids, prompts.padding);
            loss = loss.defined() ? loss + own : own;
        }
        if (step == 0)
            result.hooks.afterFirstForward = hooks.registered();
        backward(loss);
        if (step == 0 && model.group)
            result.collectives = model.group->counts();
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
