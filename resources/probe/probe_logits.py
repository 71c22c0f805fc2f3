# SPDX-License-Identifier: GPL-3.0-or-later
"""Logits of a plan against those of one process, and the first module whose output is neither one
process' nor a part of it. Used by probe_oracle.py."""

import inspect
import math

import torch

from probe_batch import Batch
from probe_compare import (
    differing_dim,
    finite,
    largest,
    object_of_first,
    of_all,
    parts_of_rank,
    rank_of,
    sum_of_all,
    tensor_of_first,
    world,
)
from probe_error import ProbeError
from probe_model import cache_argument, module_of


class Prompt:
    """A prefill and greedy steps after it, each a forward without gradients."""

    def __init__(self, model, request):
        self.model = model
        self.batch = Batch(request["input_ids"])
        self.steps = request["oracle"]["decode_steps"]
        self.name = cache_argument(model)

    def prefill(self, use_cache):
        # Families without a cache argument of that name (state-space models) are run without steps.
        kwargs = {"use_cache": use_cache} if self.takes("use_cache") else {}
        return self.model(input_ids=self.batch.ids, **kwargs, **self.batch.inputs())

    def takes(self, name):
        parameters = inspect.signature(self.model.forward).parameters
        wrapped = getattr(self.model.forward, "__wrapped__", None)
        if wrapped is not None:
            parameters = {**parameters, **inspect.signature(wrapped).parameters}
        kinds = [p.kind for p in parameters.values()]
        return name in parameters or inspect.Parameter.VAR_KEYWORD in kinds

    def cache_of(self, output):
        for name in (self.name, "past_key_values", "cache", "cache_params"):
            if output.get(name) is not None:
                return name, output[name]
        return None, None

    @torch.no_grad()
    def run(self, fed=None):
        """Logits of the prefill [B, T, V] and of each step [B, 1, V], and the ids that were fed;
        fed: those ids instead of the greedy ones."""
        steps = self.steps if fed is None else len(fed)
        output = self.prefill(use_cache=steps > 0)
        logits, ids = [self.batch.real(output.logits.float())], []
        for step in range(steps):
            name, cache = self.cache_of(output)
            if cache is None:
                break
            token = logits[-1][:, -1].argmax(-1) if fed is None else torch.tensor(fed[step])
            ids.append(token.tolist())
            given = self.batch.step_inputs(step) if self.batch.padded else {}
            output = self.model(input_ids=token[:, None], use_cache=True, **given, **{name: cache})
            logits.append(output.logits.float())
        return logits, ids


def reference(model, request):
    """On rank 0: logits, ids fed, and every module's output in the prefill."""
    prompt = Prompt(model, request)
    try:
        logits, ids = prompt.run()
    except Exception:  # a cache that this model cannot be stepped with in one process either
        logits, ids = prompt.run(fed=[])
    return {"logits": logits, "ids": ids, "values": trace(prompt)}


def compare(model, request, expected):
    """The facts of the logits, the same on every rank. expected: reference(), on rank 0."""
    share = request["oracle"]["tolerance"]
    prompt = Prompt(model, request)
    fed = object_of_first(expected and expected["ids"])
    try:
        found, _ = prompt.run(fed)
    except Exception as error:
        raise ProbeError("forward-error", str(error), module_of(error, model)) from error
    shapes = object_of_first(expected and [list(logits.shape) for logits in expected["logits"]])
    rows = []
    greatest = 0.0
    for step, shape in enumerate(shapes):
        truth = tensor_of_first(expected and expected["logits"][step], shape, torch.float32)
        greatest = max(greatest, largest(truth))
        own = found[step]
        same = list(own.shape) == shape
        rows.append((same, largest(own - truth) if same else 0.0, list(own.shape)))
    ranks = of_all(rows)
    tolerance = share * greatest
    errors = [max(row[step][1] for row in ranks) for step in range(len(shapes))]
    differ = [not all(row[step][0] for row in ranks) for step in range(len(shapes))]
    wrong = [s for s in range(len(shapes)) if differ[s] or not errors[s] <= tolerance]
    foreign = [row[0][2] for row in ranks if not row[0][0]]
    facts = {
        "max_abs_error": finite(max(errors)),
        "tolerance": finite(tolerance),
        "decode_steps": len(shapes) - 1,
        "wrong_step": wrong[0] - 1 if wrong else None,
        "shapes_differ": any(differ),
        "expected_shape": shapes[0],
        "found_shape": foreign[0] if foreign else shapes[0],
        "divergence": None,
    }
    if wrong:
        facts["divergence"] = first_divergence(prompt, request, expected, facts)
    return facts


def floats(output):
    """The floating-point tensors of a module's output, in order; caches are no part of it."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, dict):
        output = output.values()
    elif not isinstance(output, (tuple, list)):
        return []
    return [tensor for part in output for tensor in floats(part)]


@torch.no_grad()
def trace(prompt):
    """{(module, call, part): (class, value)} in call order, of a prefill without a cache."""
    values, calls, handles = {}, {}, []

    def keep(name, kind):
        def hook(module, args, output):
            call = calls[name] = calls.get(name, -1) + 1
            for part, tensor in enumerate(floats(output)):
                whole = getattr(tensor, "to_local", lambda: tensor)()
                values[(name, call, part)] = (kind, whole.detach().float().clone())

        return hook

    for name, module in prompt.model.named_modules():
        handles.append(module.register_forward_hook(keep(name, type(module).__name__)))
    try:
        prompt.prefill(use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return values


class Judged:
    """One value of this rank against one process' value."""

    def __init__(self, truth, own, share):
        self.shape = list(own.shape)
        self.same = own.shape == truth.shape
        self.right = False
        self.place = None  # (error, expected, found, position in the truth)
        limit = share * largest(truth)
        positions = torch.arange(truth.numel()).view(truth.shape)
        dim = differing_dim(truth.shape, own.shape)
        candidates = [(truth, positions)]
        if not self.same:
            rank = rank_of()
            candidates = [] if dim is None else zip(
                parts_of_rank(truth, dim, rank), parts_of_rank(positions, dim, rank)
            )
        for value, place in candidates:
            if value.shape == own.shape:
                self.against(value, place, own, limit)

    def against(self, value, places, own, limit):
        if own.numel() == 0:
            self.right = True
            return
        error = torch.nan_to_num((own - value).abs(), math.inf, math.inf).flatten()
        at = int(error.argmax())
        worst = float(error[at])
        self.right = self.right or worst <= limit
        if self.place is None or worst < self.place[0]:
            cells = (t.flatten()[at].item() for t in (value, own, places))
            self.place = (worst, *cells)

    def row(self):
        return {"right": self.right, "same": self.same, "place": self.place, "shape": self.shape}


def first_divergence(prompt, request, expected, facts):
    """The first value, in call order, that is neither one process' value, nor this rank's part of
    it, nor a term of a sum that gives it. A part in a layout of its own is no divergence while a
    whole value behind it is wrong."""
    share = request["oracle"]["tolerance"]
    own = trace(prompt)
    keys = object_of_first(
        expected and [(k, c, list(v.shape)) for k, (c, v) in expected["values"].items()]
    )
    rows = []
    for key, _, shape in keys:
        truth = tensor_of_first(expected and expected["values"][key][1], shape, torch.float32)
        rows.append(Judged(truth, own[key][1], share).row() if key in own else None)
    ranks = of_all(rows)
    strange = None
    for index, (key, kind, shape) in enumerate(keys):
        views = [row[index] for row in ranks]
        if None in views or all(view["right"] for view in views):
            continue
        if not all(view["same"] for view in views):
            strange = strange or (key, kind, shape, views)
            continue
        truth = tensor_of_first(expected and expected["values"][key][1], shape, torch.float32)
        if world() > 1 and largest(sum_of_all(own[key][1]) - truth) <= share * largest(truth):
            continue
        return divergence(key, kind, shape, views)
    if strange:
        return divergence(*strange)
    if facts["shapes_differ"] and keys:
        return never_gathered(keys, ranks)
    return None


def never_gathered(keys, ranks):
    """Logits that only differ in shape: the value nearest to the end that nobody put together."""
    for index in reversed(range(len(keys))):
        key, kind, shape = keys[index]
        views = [row[index] for row in ranks]
        if key[0] and None not in views and not all(view["same"] for view in views):
            return divergence(key, kind, shape, views) | {"expected": None, "found": None, "index": []}
    return None


def divergence(key, kind, shape, views):
    def badness(view):
        if view["right"]:
            return -1.0
        return view["place"][0] if view["place"] else math.inf

    rank = max(range(len(views)), key=lambda r: badness(views[r]))
    view = views[rank]
    found = {
        "module": key[0] or kind,
        "operation": kind,
        "rank": rank,
        "expected": None,
        "found": None,
        "index": [],
        "expected_shape": shape,
        "found_shape": view["shape"],
    }
    if view["place"]:
        _, truth, own, position = view["place"]
        found |= {"expected": finite(truth), "found": finite(own)}
        for size in reversed(shape):
            found["index"].insert(0, position % size)
            position //= size
    return found
