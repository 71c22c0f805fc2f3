# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one request against the real transformers library and brings back what was measured.

    torchrun --standalone --nproc-per-node N tpscope_probe.py --request request.json
    python tpscope_probe.py --request request.json       (tp 1, process_group fake, or an oracle,
                                                          which forks its ranks)

Plain PyTorch and transformers, nothing else. Never uses remote code or the network.

Request: a JSON object. A key with a default, given in brackets, may be left out.
  model             folder with config.json and *.safetensors, or a config.json
  weights           ["auto"] auto: random where there are no safetensors | random
  seed              [0] of random weights
  plan              [null] "auto" | {pattern: style} (DistributedConfig(tp_plan=...)) | null (tp 1)
  ep                [1] ranks that share the experts (DistributedConfig(ep_size=...)): 1 or tp
  ep_plan           [null] {pattern: style} (DistributedConfig(ep_plan=...)) | null
  plan_base         ["builtin"] builtin: rules are merged over the model's own plan |
                    none: they are the whole plan
  tp                [1] tensor-parallel size, which is the number of processes
  process_group     ["gloo"] gloo | fake: one process plays rank 0 of tp (graphs only)
  hooks             ["post-accumulate-grad"] native: what the version does | none |
                    module-backward | post-accumulate-grad | tensor-grad
  execution         ["compile"] eager | compile: how the timed decode runs
  compile_backend   ["inductor"]
  attention         [null] null: the model's default; else sdpa, eager, ...
  dtype             ["float32"]
  input_ids         [[1..8]] rows, none empty; shorter ones are padded on the left
  new_tokens        [16] tokens whose ids are returned, the one from the prefill included
  warmup_tokens     [2] decode steps on top: a generation makes new_tokens - 1 + warmup_tokens
                    steps, of which the first warmup_tokens are not to be counted
  repeats           [3] timed generations
  recompile_limit   [8] torch._dynamo.config.recompile_limit
  measure           [["graphs", "latency"]] of graphs, explain, latency, logits, collectives
  graph_tokens, graph_steps, graph_cache
                    [8, 4, 32] the shapes at which graphs are counted: prompt, decode steps and
                    positions of the static cache
  threads           [null] intra-op threads of each rank; null: cores / tp, at least 1
  timeout_seconds   [120] of the process group: no collective waits longer
  result            path of the result, written once, atomically
  events            [null] path to append progress to, one JSON object a line:
                    {"t", "cpu_s", "phase", "message", ...}
  twin              [null] for an oracle: a tiny model made from a config, see probe_oracle.py
  oracle            [null] instead of measuring: compare with one process, see probe_oracle.py
  logits            [null] path of a safetensors file: "logits" [B, T, V] of the prefill and
                    "decode_logits" [B, N, V], row i chose token i; without B for one sequence
  go, wait_seconds  [null, 600] path: timed repeat r (from 0) starts when this file holds a number
                    > r, so that a caller can interleave two probes; waits no longer than this

Result: {"format": 1, "stage": "done", "environment", "hooks", "graphs", "latency", ...}, or
{"format": 1, "stage": S, "type", "message", "rank", "errors": [one a failing rank], "environment"}
where S is "request" (this file is wrong), "environment" (libraries missing or too old),
"load-error" (the model cannot be read), "rejected" (the library refuses plan or model at load),
"forward-error", "training-error" (a backward, or a forward with gradients), "reference-error" (one
process alone fails) or "run-failed". "facts": what the oracle had found by then.

Exit: 0 done, 1 rejected, forward-error or training-error, 2 request, load-error or environment, 3 run-failed
or reference-error; one sentence on stderr.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback

from probe_error import ProbeError

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Compiling in the process itself: no pool of helper processes that could outlive a killed rank.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

FORMAT = 1
HOOK_MODES = ("native", "none", "module-backward", "post-accumulate-grad", "tensor-grad")
MEASURES = ("graphs", "explain", "latency", "logits", "collectives")
EXIT = {
    "rejected": 1,
    "forward-error": 1,
    "training-error": 1,
    "reference-error": 3,
    "request": 2,
    "load-error": 2,
    "environment": 2,
    "run-failed": 3,
}
DEFAULTS = {
    "seed": 0,
    "weights": "auto",
    "plan": None,
    "plan_base": "builtin",
    "tp": 1,
    "ep": 1,
    "ep_plan": None,
    "process_group": "gloo",
    "hooks": "post-accumulate-grad",
    "execution": "compile",
    "compile_backend": "inductor",
    "attention": None,
    "dtype": "float32",
    "input_ids": [[1, 2, 3, 4, 5, 6, 7, 8]],
    "new_tokens": 16,
    "warmup_tokens": 2,
    "repeats": 3,
    "recompile_limit": 8,
    "measure": ["graphs", "latency"],
    "graph_tokens": 8,
    "graph_steps": 4,
    "graph_cache": 32,
    "threads": None,
    "timeout_seconds": 120,
    "events": None,
    "logits": None,
    "go": None,
    "wait_seconds": 600,
    "oracle": None,
    "twin": None,
}
CHOICES = {
    "weights": ("auto", "random"),
    "plan_base": ("builtin", "none"),
    "process_group": ("gloo", "fake"),
    "hooks": HOOK_MODES,
    "execution": ("eager", "compile"),
}


def die_with_parent():
    """Linux: the kernel kills this rank when its launcher dies, whatever the reason."""
    try:
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(3)
    except (OSError, AttributeError):
        pass


def read_request(path):
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
    except (OSError, ValueError) as error:
        raise ProbeError("request", f"{path}: {error}") from error
    if not isinstance(given, dict) or "model" not in given or "result" not in given:
        raise ProbeError(
            "request", f'{path}: expected an object with at least "model" and "result"'
        )
    if unknown := sorted(given.keys() - DEFAULTS.keys() - {"model", "result"}):
        raise ProbeError("request", f"{path}: unknown keys {unknown}")
    request = DEFAULTS | given
    for key, choices in CHOICES.items():
        if request[key] not in choices:
            raise ProbeError(
                "request",
                f"{path}: {key} is {request[key]!r}, expected one of {', '.join(choices)}",
            )
    for key, least in (
        ("tp", 1),
        ("ep", 1),
        ("new_tokens", 1),
        ("warmup_tokens", 0),
        ("repeats", 1),
        ("recompile_limit", 1),
        ("graph_tokens", 1),
        ("graph_steps", 1),
        ("timeout_seconds", 1),
    ):
        if not isinstance(request[key], int) or request[key] < least:
            raise ProbeError(
                "request", f"{path}: {key} is {request[key]!r}, expected a whole number >= {least}"
            )
    if unknown := [name for name in request["measure"] if name not in MEASURES]:
        raise ProbeError(
            "request", f"{path}: unknown measures {unknown}, expected of {', '.join(MEASURES)}"
        )
    rows = request["input_ids"]
    if rows is None and request["oracle"]:
        return request  # ids of the model's vocabulary
    if not rows or not all(rows):
        raise ProbeError("request", f"{path}: input_ids needs one or more rows, none empty")
    return request


class Events:
    """Progress lines of rank 0; other ranks are silent."""

    def __init__(self, path, rank):
        self.file = open(path, "a", encoding="utf-8", buffering=1) if path and rank == 0 else None

    def __call__(self, phase, message, **more):
        if self.file:
            self.file.write(
                json.dumps(
                    {
                        "t": round(time.time(), 3),
                        "cpu_s": round(time.process_time(), 2),
                        "phase": phase,
                        "message": message,
                        **more,
                    }
                )
                + "\n"
            )


def write_once(path, value):
    """Publishes value at path unless somebody already did: readers see all of it or nothing."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)


def clean_message(error):
    """The library's own words without the internal stack that Dynamo appends."""
    text = str(error).strip() or type(error).__name__
    return text.split("\n\nfrom user code")[0].split("\n\nSet TORCHDYNAMO_VERBOSE")[0][:4000]


def is_consequence(entry):
    """Whether this rank failed only because another one went away."""
    text = entry["message"].lower()
    return any(
        word in text
        for word in ("connection closed", "connection reset", "timed out", "broken pipe")
    )


def report_failure(request, rank, error, environment):
    """Each failing rank leaves a note; the lowest of them publishes all notes as the one result."""
    cause = error.__cause__ or error
    stage = error.stage if isinstance(error, ProbeError) else "run-failed"
    note = {
        "rank": rank,
        "stage": stage,
        "type": type(cause).__name__,
        "message": clean_message(cause),
        "module": getattr(error, "module", None),
        "traceback": "".join(traceback.format_exception(cause))[-6000:],
    }
    if isinstance(error, ProbeError) and not error.__cause__:
        note["type"] = "ProbeError"
    result = request["result"]
    ranks = request["tp"] if request["process_group"] == "gloo" else 1
    write_once(f"{result}.rank{rank}", note)
    # The others usually fail the same way within moments; one that hangs in a collective does not
    # hold us up.
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not all(
        os.path.exists(f"{result}.rank{r}") for r in range(ranks)
    ):
        time.sleep(0.05)
    notes = []
    for other in range(ranks):
        try:
            with open(f"{result}.rank{other}", encoding="utf-8") as file:
                notes.append(json.load(file))
        except OSError:
            pass
    first = next((entry for entry in notes if not is_consequence(entry)), notes[0])
    value = {
        "format": FORMAT,
        "stage": first["stage"],
        "type": first["type"],
        "message": first["message"],
        "rank": first["rank"],
        "module": first["module"],
        "errors": notes,
        "environment": environment,
        "facts": request.get("facts"),
    }
    if rank == notes[0]["rank"] and write_once(result, value):
        sentence = " ".join(first["message"].split())[:600]
        for entry in notes:
            os.unlink(f"{result}.rank{entry['rank']}")
        print(
            f"tpscope_probe: {first['stage']} on rank {first['rank']}: {first['type']}: {sentence}",
            file=sys.stderr,
        )
    return EXIT[first["stage"]]


def run(request, rank, environment):
    request["started_ns"] = time.perf_counter_ns()
    events = Events(request["events"], rank)
    try:
        events("load", "importing torch and transformers")
        import probe_model
        import probe_graphs
        import probe_latency
    except ImportError as error:
        raise ProbeError("environment", f"cannot import {error.name}: {error}") from error
    environment.update(probe_model.set_up(request))
    events("load", f"torch {environment['torch']}, transformers {environment['transformers']}")
    result = {"format": FORMAT, "stage": "done", "environment": environment}
    if request["oracle"]:
        import probe_oracle

        result |= probe_oracle.measure(request, rank, events, environment)
        finish(request, rank, result, events, probe_model)
        return
    model, hooks = probe_model.load(request, rank, events)
    result["hooks"] = hooks.description()
    environment["attention"] = model.config.get_text_config()._attn_implementation
    result["hooks"]["after_load"] = hooks.registered(model)
    events("prefill", "first forward of the whole prompt")
    probe_model.first_forward(model, request)
    if {"graphs", "explain"} & set(request["measure"]):
        result |= probe_graphs.measure(model, request, events)
    if {"latency", "logits", "collectives"} & set(request["measure"]):
        result |= probe_latency.measure(model, request, rank, events)
    if "graphs" in request["measure"]:
        if "decode_graphs" in result:
            result["graphs"]["decode"] = result.pop("decode_graphs")
        result["graphs"]["ranks_agree"] = probe_graphs.ranks_agree(result["graphs"])
    result["hooks"]["after_decode"] = hooks.registered(model)
    result["warnings"] = hooks.warnings
    finish(request, rank, result, events, probe_model)


def finish(request, rank, result, events, probe_model):
    probe_model.leave()
    if rank == 0:
        write_once(request["result"], result)
        events("done", "result written")


def run_rank(request, rank, environment):
    die_with_parent()
    try:
        run(request, rank, environment)
    except BaseException as error:  # also KeyboardInterrupt: whatever ends a rank must be told
        return report_failure(request, rank, error, environment)
    return 0


def run_forked(request):
    """All ranks of an oracle. A rank that could not tell its end itself is told here."""
    import probe_ranks

    Events(request["events"], 0)("load", "importing torch and transformers")
    probe_ranks.import_libraries(request)
    failed = probe_ranks.wait(
        probe_ranks.fork(request["tp"], lambda rank: run_rank(request, rank, {}))
    )
    if not failed:
        return 0
    message = probe_ranks.describe(*failed[0])
    told = {"rank": failed[0][0], "type": "ProbeError", "message": message}
    failure = {"format": FORMAT, "stage": "run-failed", **told, "errors": [], "environment": {}}
    if write_once(request["result"], failure):
        print(f"tpscope_probe: {message}", file=sys.stderr)
    return failed[0][1] if failed[0][1] > 0 else EXIT["run-failed"]


def main():
    parser = argparse.ArgumentParser(
        description="Measures a tensor-parallel plan with the real transformers library."
    )
    parser.add_argument("--request", required=True, help="request.json, see the top of this file")
    arguments = parser.parse_args()
    die_with_parent()
    try:
        request = read_request(arguments.request)
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if request["oracle"] and request["tp"] > 1 and "RANK" not in os.environ:
            return run_forked(request)
        if world != (request["tp"] if request["process_group"] == "gloo" else 1):
            raise ProbeError("request", f"tp is {request['tp']} and {world} processes were started")
    except ImportError as error:
        failure = ProbeError("environment", f"cannot import {error.name}: {error}")
        return report_failure(request | {"tp": 1}, 0, failure, {})
    except ProbeError as error:
        print(f"tpscope_probe: {error}", file=sys.stderr)
        return EXIT[error.stage]
    return run_rank(request, int(os.environ.get("RANK", "0")), {})


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's shutdown: a rank whose peer is stuck in a collective must end all
    # the same.
    os._exit(code)
