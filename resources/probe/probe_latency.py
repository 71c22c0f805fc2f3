# SPDX-License-Identifier: GPL-3.0-or-later
"""Greedy decode on a static cache: time per token, ids, logits, collectives. Used by
tpscope_probe.py."""

import os
import time

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters

import probe_graphs
from probe_batch import Batch
from probe_collectives import CountCollectives
from probe_model import cache_argument, static_cache


class Generator:
    """One prompt, one static cache that is reused, so that a repeat meets the very graphs of the
    one before."""

    def __init__(self, model, step, request):
        self.model = model
        self.step = step
        self.batch = Batch(request["input_ids"])
        self.steps = request["new_tokens"] - 1 + request["warmup_tokens"]
        self.name = cache_argument(model)
        length = self.batch.length + self.steps
        counting = probe_graphs.counted_while_timing(request)
        self.cache = static_cache(model, request["graph_cache"] if counting else length)

    def prefill(self):
        self.cache.reset()
        given = self.batch.inputs() | {self.name: self.cache}
        logits = self.model(input_ids=self.batch.ids, use_cache=True, **given).logits
        return logits, logits[:, -1].argmax(-1)

    def decode(self, token, index):
        given = self.batch.step_inputs(index) | {self.name: self.cache}
        logits = self.step(input_ids=token[:, None], use_cache=True, **given).logits
        return logits, logits[:, -1].argmax(-1)

    def run(self, keep_logits=False, after_step=None):
        """One generation: (begin, end) of prefill and steps on this rank in nanoseconds, with an
        untimed barrier before each; ids; logits, those of the whole prompt first."""
        barrier()
        begin = time.perf_counter_ns()
        logits, token = self.prefill()
        spans = [(begin, time.perf_counter_ns())]
        tokens, kept = [token], [logits] if keep_logits else []
        for index in range(self.steps):
            barrier()
            begin = time.perf_counter_ns()
            logits, token = self.decode(token, index)
            spans.append((begin, time.perf_counter_ns()))
            tokens.append(token)
            if keep_logits:
                kept.append(logits.clone())
            if after_step:
                after_step()
        return spans, torch.stack(tokens, 1).tolist(), kept


def barrier():
    if dist.is_initialized():
        dist.barrier()


def count_collectives(model, request):
    """Collectives of the prefill and of one decode step, eager and untimed."""
    generator = Generator(model, model, request)
    with CountCollectives() as prefill:
        _, token = generator.prefill()
    with CountCollectives() as step:
        generator.decode(token, 0)
    return {"prefill": prefill.counts, "decode_step": step.counts}


def wait_for_go(request, repeat, rank, events):
    """Rank 0 waits for the caller's permission, the others for rank 0 (in the barrier before the
    timed prefill)."""
    if not request["go"] or rank != 0:
        return
    events("ready", f"waiting to start repeat {repeat + 1}", repeat=repeat)
    deadline = time.monotonic() + request["wait_seconds"]
    while time.monotonic() < deadline:
        try:
            with open(request["go"], encoding="utf-8") as file:
                if int(file.read().strip() or 0) > repeat:
                    return
        except (OSError, ValueError):
            pass
        time.sleep(0.02)
    raise TimeoutError(f"no permission for repeat {repeat} within {request['wait_seconds']} s")


def compile_step(model, request, events):
    """The compiled step and its counting backend; in eager mode the model itself and None."""
    if request["execution"] == "eager":
        return model, None
    probe_graphs.reset()
    name = request["compile_backend"]
    inner = torch._dynamo.lookup_backend(name)
    backend = probe_graphs.CountingBackend(
        inner, lambda number, ops: events("compile", f"{name}: graph {number}, {ops} operations")
    )
    return torch.compile(model, backend=backend), backend


def measure(model, request, rank, events):
    result = {}
    with torch.no_grad():
        if "collectives" in request["measure"] and request["tp"] > 1:
            result["collectives"] = count_collectives(model, request)
        step, backend = compile_step(model, request, events)
        generator = Generator(model, step, request)
        events("compile" if backend else "decode", "first generation, not timed")
        counts = None
        if probe_graphs.counted_while_timing(request):
            counts = probe_graphs.DecodeCounts(model, backend, request["graph_steps"])
        begin = time.perf_counter()
        # Every step once: whatever is compiled late (a second mask width, a recompilation) is
        # compiled here.
        _, ids, logits = generator.run(
            keep_logits=True, after_step=counts.after_step if counts else None
        )
        if counts:
            result["decode_graphs"] = counts.result
        first = time.perf_counter() - begin
        generator.run()
        result["output_ids"] = [row[: request["new_tokens"]] for row in ids]
        result["last_logits"] = logits[request["new_tokens"] - 1][:, -1].float().flatten().tolist()
        if "logits" in request["measure"] and request["logits"] and rank == 0:
            save_logits(request["logits"], logits[: request["new_tokens"]])
        if "latency" in request["measure"]:
            result["latency"] = timed(generator, backend, request, rank, events)
            result["latency"] |= {"first_generation_s": round(first, 3)}
            result["outputs_stable"] = all(
                ids == other for other in result["latency"].pop("outputs")
            )
    return result


def timed(generator, backend, request, rank, events):
    repeats, launches = [], 0
    outputs = []
    for repeat in range(request["repeats"]):
        wait_for_go(request, repeat, rank, events)
        if backend:
            backend.take_launches()
        spans, ids, _ = generator.run()
        outputs.append(ids)
        launches = len(backend.take_launches()) / max(1, generator.steps) if backend else 0
        times = [end - begin for begin, end in spans]
        entry = {
            "repeat": repeat,
            "first_token_ns": times[0],
            "step_ns": times[1:],
            "start_ns": [begin - request["started_ns"] for begin, _ in spans],
        }
        repeats.append(entry)
        kept = sorted(times[1 + request["warmup_tokens"] :])
        per_token = f": {kept[len(kept) // 2] / 1e6:.3f} ms per token" if kept else ""
        events(
            "decode",
            f"repeat {repeat + 1} of {request['repeats']}{per_token}",
            fraction=(repeat + 1) / request["repeats"],
            **entry,
        )
    return {
        "repeats": repeats,
        "warmup_tokens": request["warmup_tokens"],
        "prefill": "eager",
        "outputs": outputs,
        "inductor_cache": {
            key: value
            for key, value in counters["inductor"].items()
            if key.startswith("fxgraph_cache")
        },
        "launches_per_step": launches if backend else None,
        "graphs": len(backend.graphs) if backend else 0,
        "load_average": list(os.getloadavg()),
    }


def save_logits(path, logits):
    from safetensors.torch import save_file

    rows = torch.stack([part[:, -1] for part in logits], 1).float()
    if rows.shape[0] == 1:
        rows = rows[0]
    temporary = f"{path}.tmp"
    save_file(
        {"logits": logits[0].float().contiguous(), "decode_logits": rows.contiguous()}, temporary
    )
    os.replace(temporary, path)
