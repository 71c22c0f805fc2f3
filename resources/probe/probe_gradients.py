# SPDX-License-Identifier: GPL-3.0-or-later
"""Every parameter's gradient under a plan against one process', as the facts from which
core/run/gradientreport judges. Used by probe_oracle.py."""

import contextlib
import fnmatch

import torch
import torch.distributed as dist

from probe_batch import Batch
from probe_collectives import CountCollectives
from probe_compare import (
    differing_dim,
    finite,
    largest,
    local_of,
    object_of_first,
    of_all,
    owes_sum,
    parts_of_rank,
    rank_of,
    sum_of_all,
    tensor_of_first,
    world,
)
from probe_error import ProbeError
from probe_model import module_of


def trains(name, patterns):
    """As core/model/trainable.h says."""

    def matches(pattern):
        return fnmatch.fnmatchcase(name, pattern)

    return not patterns or any(
        matches(pattern) or matches(f"{pattern}.*") if set(pattern) & set("*?[") else pattern in name
        for pattern in patterns
    )


def prepare(model, request):
    """Train mode without any dropout, so that both sides compute the same function."""
    model.train()
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if ("dropout" in name or (name == "p" and "Dropout" in type(module).__name__)) and (
                isinstance(value, float)
            ):
                setattr(module, name, 0.0)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(
            parameter.is_floating_point() and trains(name, request["oracle"]["trainable"])
        )
    if request["oracle"]["gradient_checkpointing"]:
        model.gradient_checkpointing_enable()


def backward(model, request):
    """One micro-step; the loss."""
    batch = Batch(request["input_ids"])
    torch.manual_seed(request["seed"])  # what training draws at random (jitter of routers) is alike
    loss = model(
        input_ids=batch.ids, labels=batch.labels(), use_cache=False, **batch.inputs()
    ).loss
    loss.backward()
    return loss.item()


def reference(model, request):
    """On rank 0: each gradient of one backward, weights, loss. The model keeps its gradients."""
    prepare(model, request)
    loss = backward(model, request)
    return {
        "loss": loss,
        "weights": dict(model.named_parameters()),
        "gradients": {
            name: parameter.grad for name, parameter in model.named_parameters()
            if parameter.grad is not None
        },
    }


class CountReductions:
    """Counts the all-reduces of each parameter's accumulated gradient that hooks make."""

    def __init__(self, model, hooks):
        self.names = {id(p): name for name, p in model.named_parameters()}
        self.parameters = list(model.parameters())
        self.counts = {}
        hooks.on_reduction = lambda p: self.count(self.names.get(id(p)))

    def count(self, name):
        if name is not None:
            self.counts[name] = self.counts.get(name, 0) + 1

    @contextlib.contextmanager
    def watching(self):
        native = dist.all_reduce

        def all_reduce(tensor, *args, **kwargs):
            for parameter in self.parameters:
                if tensor is parameter.grad:
                    self.count(self.names[id(parameter)])
            return native(tensor, *args, **kwargs)

        dist.all_reduce = all_reduce
        try:
            yield
        finally:
            dist.all_reduce = native


def train(model, hooks, request):
    counts = CountReductions(model, hooks)
    losses = []
    try:
        prepare(model, request)
        with counts.watching():
            with CountCollectives() as exchanged:
                losses.append(backward(model, request))
            for _ in range(request["oracle"]["micro_steps"] - 1):
                losses.append(backward(model, request))
    except Exception as error:
        raise ProbeError("training-error", str(error), module_of(error, model)) from error
    for name, parameter in model.named_parameters():
        if owes_sum(parameter.grad):
            counts.count(name)
    return losses, counts.counts, exchanged.counts


def held_by(weight, local, rank):
    """A function that takes this rank's part of a whole tensor, read off the weights themselves: how
    a placement is called says less. None: no part of the whole weight is what the rank holds."""
    if weight.shape == local.shape:
        return (lambda whole: whole) if torch.equal(weight, local) else None
    dim = differing_dim(weight.shape, local.shape)
    if dim is None:
        return None
    for number, part in enumerate(parts_of_rank(weight, dim, rank)):
        if part.shape == local.shape and torch.equal(part, local):
            return lambda whole: list(parts_of_rank(whole, dim, rank))[number]
    return None


def is_whole(parameter, shape):
    """Whether every rank holds all of it."""
    placements = getattr(parameter, "placements", None)
    if placements is not None:
        return all(p.is_replicate() or p.is_partial() for p in placements)
    return list(parameter.shape) == shape


def worst(values):
    """The largest, None being infinite."""
    values = list(values)
    return None if None in values else max(values)


def products(gradient, truth):
    error = gradient - truth
    pairs = ((gradient, truth), (truth, truth), (gradient, gradient), (error, error))
    return [finite((a * b).sum().item()) for a, b in pairs] + [finite(largest(error))]


def facts_of(name, parameter, weight, reference_gradient, request, reductions, asks_sync):
    held = held_by(weight.to(parameter.dtype), local_of(parameter), rank_of())
    if held is None:
        return no_part(name, parameter, reference_gradient, request, reductions)
    truth = held(reference_gradient) * request["oracle"]["micro_steps"]
    whole = is_whole(parameter, list(weight.shape))
    gradient = torch.zeros_like(truth)
    if parameter.grad is not None:
        gradient = local_of(parameter.grad, parameter).double()
    facts = {"name": name, "whole": whole, "asks_sync": asks_sync, "sum_error": 0.0, "spread": 0.0}
    if whole:
        total = sum_of_all(gradient)
        facts["sum_error"] = finite((total - truth).square().sum().item())
        facts["spread"] = finite((gradient - total / world()).square().sum().item())
    return facts | {"row": [*products(gradient, truth), reductions]}


def no_part(name, parameter, truth, request, reductions):
    """Facts of a rank that holds no part of the whole weight: nothing of its gradient is right."""
    truth = truth * request["oracle"]["micro_steps"]
    gradient = torch.zeros(()) if parameter.grad is None else local_of(parameter.grad, parameter).double()
    norms = [finite(t.square().sum().item()) for t in (truth, gradient)]
    row = [0.0, *norms, sum(n or 0.0 for n in norms), finite(max(largest(truth), largest(gradient))), reductions]
    facts = {"name": name, "whole": False, "asks_sync": False, "sum_error": 0.0, "spread": 0.0}
    return facts | {"row": row}


def total_norms(model):
    """What users measure: clip_grad_norm_ over everything, and the norm of what this rank holds."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    local = sum(local_of(g).double().square().sum().item() for g in gradients) ** 0.5
    try:
        norm = torch.nn.utils.get_total_norm(gradients)
        return {"clip": float(getattr(norm, "full_tensor", lambda: norm)()), "local": local}
    except Exception as error:
        return {"clip": None, "clip_error": f"{type(error).__name__}: {error}"[:300], "local": local}


def synced_parameters(model, hooks):
    """Ids of the parameters whose style says that their gradients are summed over the ranks."""
    return {id(p) for module, _ in hooks.modules for p in module.parameters(recurse=False)}


def compare(model, hooks, request, expected):
    """The facts of all gradients, the same on every rank. expected: reference(), on rank 0."""
    losses, reductions, exchanged = train(model, hooks, request)
    synced = synced_parameters(model, hooks)
    own = dict(model.named_parameters())
    listed = object_of_first(
        expected and [(n, list(g.shape)) for n, g in expected["gradients"].items()]
    )
    rows, foreign = [], []
    for name, shape in listed:
        weight = tensor_of_first(expected and expected["weights"][name].detach(), shape, torch.float32)
        truth = tensor_of_first(expected and expected["gradients"][name], shape, torch.float64)
        parameter = own.get(name)
        if of_all(parameter is not None).count(True) < world():
            foreign.append(name)
            continue
        count, asks_sync = reductions.get(name, 0), id(parameter) in synced
        rows.append(facts_of(name, parameter, weight, truth, request, count, asks_sync))
    parameters = [
        {key: views[0][key] for key in ("name", "asks_sync", "sum_error")}
        | {"whole": all(view["whole"] for view in views)}
        | {"spread": worst(view["spread"] for view in views), "ranks": [view["row"] for view in views]}
        for views in zip(*of_all(rows))
    ]
    return {
        "parameters": parameters,
        "not_compared": foreign,
        "losses": losses,
        "collectives": exchanged,
        "true_loss": object_of_first(expected and expected["loss"]),
        "norms": of_all(total_norms(model)),
    }
