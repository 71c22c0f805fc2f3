# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts ranks as forks of a process that has imported the libraries already, which takes seconds a
rank. They meet through a file, so that no port is opened before Gloo opens its own. Used by
tpscope_probe.py instead of torchrun where nothing is compiled."""

import os
import signal
import sys
import time

GRACE_SECONDS = 5.0


def import_libraries(request):
    """Also the model's own module. Without running an operation: a fork must not inherit threads."""
    import torch._dynamo  # noqa: F401
    import torch.distributed.tensor  # noqa: F401
    import transformers
    import probe_model
    import probe_oracle  # noqa: F401
    import probe_twin

    try:
        twin = request["twin"]
        config = (
            probe_twin.config_of(twin["config"], twin["name"])
            if twin
            else probe_model.read_config(request["model"])
        )
        transformers.AutoModelForCausalLM._model_mapping[type(probe_twin.causal_config(config))]
    except Exception:
        pass  # a rank meets it again and tells it


def fork(ranks, body):
    """Process ids by rank; each runs body(rank) and ends with the status it returns."""
    children = {}
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
            status = 3
            try:
                status = body(rank)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        children[child] = rank
    return children


def wait(children):
    """Waits for all ranks; those that a failed one leaves in a collective are killed. The failed
    ranks in the order they ended: [(rank, status)], a status as os.waitstatus_to_exitcode gives it."""
    failed, deadline = [], None
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG if deadline else 0)
        if pid in children:
            rank, code = children.pop(pid), os.waitstatus_to_exitcode(status)
            if code != 0:
                failed.append((rank, code))
                deadline = deadline or time.monotonic() + GRACE_SECONDS
        elif time.monotonic() > deadline:
            for child in children:
                os.kill(child, signal.SIGKILL)
            deadline = float("inf")
        else:
            time.sleep(0.02)
    return failed


def describe(rank, code):
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"rank {rank} {how}"
