# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what ranks exchange. Used by probe_latency.py and probe_gradients.py."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class CountCollectives(TorchDispatchMode):
    """Counts collectives and the bytes of their input on this rank, also those that DTensor issues."""

    NAMES = {
        "allreduce": "all_reduce",
        "all_reduce": "all_reduce",
        "allgather": "all_gather",
        "all_gather": "all_gather",
        "reduce_scatter": "reduce_scatter",
        "alltoall": "all_to_all",
        "all_to_all": "all_to_all",
        "broadcast": "broadcast",
    }

    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        from torch.distributed.tensor import DTensor

        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # the collectives behind it come past as operations of their own
        if func.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            self.count(func._schema.name.split("::")[1].lstrip("_"), args)
        return func(*args, **(kwargs or {}))

    def count(self, operation, args):
        name = next(
            (known for start, known in self.NAMES.items() if operation.startswith(start)), None
        )
        if name is None:
            return
        # Gathers of the c10d namespace list their outputs first; the inputs come second.
        source = args[1] if operation.startswith("allgather") else args[0]
        tensors = torch.utils._pytree.tree_leaves(source)
        size = sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))
        entry = self.counts.setdefault(name, {"count": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += size
