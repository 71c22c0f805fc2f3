# SPDX-License-Identifier: GPL-3.0-or-later
"""Exchanges of tensors among ranks, and which part of a whole tensor a rank holds. Used by
probe_logits.py, probe_gradients.py and probe_checkpoint.py."""

import math

import torch
import torch.distributed as dist


def world():
    return dist.get_world_size() if dist.is_initialized() else 1


def rank_of():
    return dist.get_rank() if dist.is_initialized() else 0


def object_of_first(value):
    """Rank 0's value on every rank."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def of_all(value):
    """The values of all ranks, in their order, on every rank."""
    if world() == 1:
        return [value]
    values = [None] * world()
    dist.all_gather_object(values, value)
    return values


def tensor_of_first(tensor, shape, dtype):
    """Rank 0's tensor on every rank; the others pass None and know shape and dtype."""
    if world() == 1:
        return tensor
    out = tensor.to(dtype).contiguous() if tensor is not None else torch.empty(shape, dtype=dtype)
    if out.numel():
        dist.broadcast(out, src=0)
    return out


def sum_of_all(tensor):
    out = tensor.clone().contiguous()
    if world() > 1 and out.numel():
        dist.all_reduce(out)
    return out


def local_of(tensor, like=None):
    """What this rank holds of a tensor that may be a DTensor; a sum that DTensor still owes is made.
    like: a DTensor whose placements it is brought to, as an optimizer would."""
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(tensor, DTensor):
        return tensor.detach()
    wanted = like.placements if isinstance(like, DTensor) else tensor.placements
    wanted = tuple(Replicate() if p.is_partial() else p for p in wanted)
    if tensor.placements != wanted:
        tensor = tensor.detach().redistribute(placements=wanted)
    return tensor.detach().to_local()


def owes_sum(tensor):
    """Whether a DTensor's ranks hold terms of a sum that is made when somebody reads it."""
    placements = getattr(tensor, "placements", ())
    return any(p.is_partial() for p in placements)


def differing_dim(whole, part):
    """The one dimension in which two shapes differ; None: none, more than one, or another rank."""
    if len(whole) != len(part):
        return None
    dims = [d for d, (a, b) in enumerate(zip(whole, part)) if a != b]
    return dims[0] if len(dims) == 1 else None


def chunk_of(tensor, dim, rank):
    parts = tensor.chunk(world(), dim)
    return parts[rank] if rank < len(parts) else tensor.narrow(dim, 0, 0)


def parts_of_rank(whole, dim, rank):
    """What a rank may hold: its chunk of the dimension, or of each of two halves (packed weights)."""
    yield chunk_of(whole, dim, rank)
    if whole.shape[dim] % 2 == 0:
        yield torch.cat([chunk_of(half, dim, rank) for half in whole.chunk(2, dim)], dim)


def finite(value):
    """JSON has no infinity: None stands for it."""
    return value if math.isfinite(value) else None


def largest(tensor):
    """The largest magnitude; infinite where an element is no number."""
    if tensor.numel() == 0:
        return 0.0
    value = tensor.abs().max().item()
    return value if math.isfinite(value) else math.inf
