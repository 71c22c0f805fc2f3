# SPDX-License-Identifier: GPL-3.0-or-later
"""What a twin's ranks hold after loading, whether save_pretrained of the sharded model gives the
original back, and which hooks stand when. Used by probe_oracle.py."""

import os
import re
import shutil

import torch

import probe_graphs
import probe_model
from probe_compare import local_of, object_of_first, of_all, rank_of, tensor_of_first
from probe_gradients import held_by


def load_facts(model, expected):
    """Parameters of which a rank holds no part of the original weight, and those it lacks or invents.
    expected: named parameters of one process, on rank 0."""
    own = dict(model.named_parameters())
    listed = object_of_first(expected and [(n, list(p.shape), p.dtype) for n, p in expected.items()])
    wrong = []
    for name, shape, dtype in listed:
        weight = tensor_of_first(expected and expected[name].detach(), shape, dtype)
        if name in own and held_by(weight, local_of(own[name]), rank_of()) is None:
            wrong.append(name)
    names = {name for name, _, _ in listed}
    ranks = of_all((wrong, sorted(names - own.keys()), sorted(own.keys() - names)))
    merged = [sorted({name for rank in ranks for name in rank[part]}) for part in range(3)]
    return dict(zip(("different", "missing", "unexpected"), merged))


def differences(expected, found):
    """Names of parameters that are otherwise than expected. On one process."""
    different = [n for n, p in expected.items() if n in found and not torch.equal(p, found[n])]
    return {
        "different": different,
        "missing": sorted(expected.keys() - found.keys()),
        "unexpected": sorted(found.keys() - expected.keys()),
    }


def reload(folder, request, expected):
    """Names that a saved checkpoint gives back otherwise than one process has them. On rank 0."""
    again = probe_model.from_pretrained(folder, request | {"tp": 1, "plan": None})
    return differences(expected, dict(again.named_parameters()))


def save_facts(model, request, expected, scratch):
    """save_pretrained of the sharded model, then the checkpoint in one process."""
    target = os.path.join(scratch, "saved")
    error = None
    try:
        model.save_pretrained(target)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    errors = of_all(error)
    facts = {"error": next((e for e in errors if e), None), "stage": "save_pretrained"}
    if not facts["error"] and rank_of() == 0:
        try:
            facts |= reload(target, request, expected)
        except Exception as raised:
            cause = raised.__cause__ or raised
            facts |= {"error": f"{type(cause).__name__}: {cause}", "stage": "reload"}
    if rank_of() == 0:
        shutil.rmtree(target, ignore_errors=True)
    return object_of_first(facts)


def generic(names):
    return sorted({re.sub(r"\.\d+(?=\.|$)", ".*", name) for name in names})


def hook_facts(model):
    """Modules with a backward hook, which break a compiled graph, and parameters with one."""
    named = list(model.named_parameters())
    return {
        "module_backward": generic(n for n, m in model.named_modules() if m._backward_hooks),
        "post_accumulate_grad": generic(
            n for n, p in named if getattr(p, "_post_accumulate_grad_hooks", None)
        ),
        "tensor_grad": generic(n for n, p in named if getattr(p, "_backward_hooks", None)),
    }


def graph_facts(model, request, events):
    """Graphs of a prefill under torch.compile, counted where a module hook makes it worth while."""
    try:
        with torch.no_grad():
            counted = probe_graphs.prefill(model, request, events)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        probe_graphs.reset()
    keys = ("graphs", "launches")
    return {key: counted[key] for key in keys} | {"graph_breaks": counted["graphs_first_call"] - 1}
