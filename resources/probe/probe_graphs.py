# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts Dynamo's graphs, breaks and launches. Used by tpscope_probe.py.

The prefill counts are those of the second call of 8 tokens without a cache; the decode counts
those of 4 steps on a static cache that was filled eagerly. A counting backend runs each graph as
captured, so nothing but Dynamo compiles.
"""

import linecache
import os
import re

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters, get_compilation_metrics

from probe_model import cache_argument, static_cache


class CountingBackend:
    """Numbers graphs in the order they are compiled, and records the order they are launched in."""

    def __init__(self, inner=None, on_graph=None):
        self.graphs = []
        self.launched = []
        self.inner = inner
        self.on_graph = on_graph

    def __call__(self, graph_module, example_inputs):
        number = len(self.graphs)
        reason = getattr(graph_module, "compile_subgraph_reason", None)
        ops = sum(
            node.op in ("call_function", "call_method", "call_module")
            for node in graph_module.graph.nodes
        )
        self.graphs.append(
            {
                "ops": ops,
                "ended_by": first_line(reason.reason) if reason is not None else None,
                "is_break": bool(reason is not None and reason.graph_break),
                "user_stack": user_stack(reason)[0] if reason is not None else [],
            }
        )
        if self.on_graph:
            self.on_graph(number, ops)
        run = self.inner(graph_module, example_inputs) if self.inner else graph_module.forward
        launched = self.launched

        def launch(*args):
            launched.append(number)
            return run(*args)

        return launch

    def take_launches(self):
        taken, self.launched[:] = list(self.launched), []
        return taken


def first_line(text):
    return text.strip().splitlines()[0] if text and text.strip() else text


def reset():
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    counters.clear()


def frame(metrics):
    """One frame that Dynamo tried, in words: what it gave and why it ended."""
    reasons = sorted(first_line(reason) for reason in metrics.restart_reasons or ())
    ops = metrics.graph_op_count
    if metrics.fail_type or metrics.fail_reason:
        outcome = "eager"
    elif reasons:
        outcome = "prefix graph and resume" if ops else "resume, no graph"
    else:
        outcome = "graph" if ops else "no graph"
    recompiled = (
        (first_line(metrics.recompile_reason) or "").split("(HINT")[0].split("  #")[0].strip()
    )
    return {
        "compile_id": metrics.compile_id,
        "name": metrics.co_name,
        "file": os.path.basename(metrics.co_filename or ""),
        "line": metrics.co_firstlineno,
        "ops": ops,
        "outcome": outcome,
        "eager_because": first_line(metrics.fail_reason) if metrics.fail_reason else None,
        "breaks_because": reasons,
        "recompiled_because": recompiled or None,
    }


def frames():
    return [frame(metrics) for metrics in get_compilation_metrics() if metrics.co_name]


def user_stack(reason):
    """Outermost first, "file:line function"; without the part inside torch's own module call."""
    frames = [
        f
        for f in reason.user_stack
        if not f.filename.endswith(os.path.join("torch", "nn", "modules", "module.py"))
    ]
    return [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames], frames[
        -1
    ] if frames else None


def only(names):
    return names[0] if len(names) == 1 else None


def breaks(hooked):
    """All resumable breaks since the reset. module: the hooked one that the innermost line calls,
    if only one can be."""
    from torch._dynamo.output_graph import graph_break_reasons

    found = []
    for reason in graph_break_reasons:
        stack, inner = user_stack(reason)
        code = linecache.getline(inner.filename, inner.lineno).strip() if inner else ""
        fitting = [
            name for name in hooked if re.search(rf"\b{re.escape(name.rsplit('.', 1)[-1])}\(", code)
        ]
        found.append(
            {
                "cause": first_line(reason.reason),
                "module": only(fitting) or only(hooked),
                "code": code,
                "user_stack": stack,
            }
        )
    return found


def start(model, events, phase):
    from torch._dynamo.output_graph import graph_break_reasons

    reset()
    graph_break_reasons.clear()
    backend = CountingBackend(
        on_graph=lambda number, ops: events("compile", f"{phase}: graph {number}, {ops} operations")
    )
    return backend, torch.compile(model, backend=backend)


def hooked_patterns(model):
    """Names of modules with a backward hook, layer numbers as *."""
    return sorted(
        {
            re.sub(r"\.\d+(?=\.|$)", ".*", name)
            for name, module in model.named_modules()
            if module._backward_hooks
        }
    )


def summary(model, backend, launches):
    return {
        "graphs": len(backend.graphs),
        "launches": len(launches),
        "launch_sequence": launches,
        "break_counter": sum(counters["graph_break"].values()),
        "graph_list": backend.graphs,
        "frames": frames(),
        "breaks": breaks(hooked_patterns(model)),
    }


def prefill(model, request, events):
    backend, compiled = start(model, events, "prefill")
    ids = token_row(model, request["graph_tokens"])
    compiled(input_ids=ids, use_cache=False)
    first = backend.take_launches()
    graphs_first = len(backend.graphs)
    compiled(input_ids=ids, use_cache=False)
    result = summary(model, backend, backend.take_launches())
    return result | {"launches_first_call": len(first), "graphs_first_call": graphs_first}


class DecodeCounts:
    """Notes what each of the first decode steps after a reset compiled and launched."""

    def __init__(self, model, backend, steps):
        self.model = model
        self.backend = backend
        self.steps = steps
        self.launches, self.graphs, self.breaks, self.frames = [], [], [], []
        self.result = None

    def after_step(self):
        if self.result is not None:
            return
        self.launches.append(self.backend.take_launches())
        self.graphs.append(len(self.backend.graphs))
        self.breaks.append(sum(counters["graph_break"].values()))
        self.frames.append(len(frames()))
        if len(self.launches) == self.steps:
            self.result = summary(self.model, self.backend, self.launches[-1]) | {
                "launches_per_step": [len(taken) for taken in self.launches],
                "graphs_after_step": self.graphs,
                "break_counter_after_step": self.breaks,
                "frames_after_step": self.frames,
            }


def decode(model, request, events):
    tokens, steps = request["graph_tokens"], request["graph_steps"]
    cache = static_cache(model, max(request["graph_cache"], tokens + steps))
    name = cache_argument(model)
    model(input_ids=token_row(model, tokens), use_cache=True, **{name: cache})
    backend, compiled = start(model, events, "decode")
    counts = DecodeCounts(model, backend, steps)
    for step in range(steps):
        ids = torch.tensor([[(step + 1) % model.config.get_text_config().vocab_size]])
        compiled(
            input_ids=ids,
            position_ids=torch.tensor([[tokens + step]]),
            use_cache=True,
            **{name: cache},
        )
        counts.after_step()
    return counts.result


def counted_while_timing(request):
    """Whether the timed decode has the shapes at which graphs are counted: then it need not be
    traced twice."""
    steps = request["new_tokens"] - 1 + request["warmup_tokens"]
    rows = request["input_ids"]
    return (
        request["execution"] == "compile"
        and "latency" in request["measure"]
        and "graphs" in request["measure"]
        and len(rows) == 1
        and len(rows[0]) == request["graph_tokens"]
        and steps >= request["graph_steps"]
        and len(rows[0]) + steps <= request["graph_cache"]
    )


def token_row(model, length):
    return (torch.arange(length) % (model.config.get_text_config().vocab_size - 1) + 1).unsqueeze(0)


def explain(model, request):
    reset()
    output = torch._dynamo.explain(model)(
        input_ids=token_row(model, request["graph_tokens"]), use_cache=False
    )
    return {
        "graph_count": output.graph_count,
        "graph_break_count": output.graph_break_count,
        "reasons": sorted({first_line(reason.reason) for reason in output.break_reasons}),
    }


def ranks_agree(graphs):
    """Whether all ranks saw the same counts: each rank compiles for itself."""
    value = [
        [part[key] for key in ("graphs", "launches", "launch_sequence", "break_counter")]
        for part in (graphs["prefill"], graphs["decode"])
    ]
    if not dist.is_initialized() or dist.get_backend() == "fake":
        return True
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return all(other == values[0] for other in values)


def measure(model, request, events):
    result = {}
    with torch.no_grad():
        if "graphs" in request["measure"]:
            events("compile", "counting graphs of the prefill")
            result["prefill"] = prefill(model, request, events)
            if not counted_while_timing(request):
                events("compile", "counting graphs of the decode")
                result["decode"] = decode(model, request, events)
        if "explain" in request["measure"]:
            events("compile", "torch._dynamo.explain of the prefill")
            result["explain"] = explain(model, request)
    reset()
    return {"graphs": result}
