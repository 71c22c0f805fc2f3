# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan on tp ranks against one process: logits, then gradients; of a tiny twin also loading, saving
and hooks. Used by tpscope_probe.py.

request["oracle"]: {"logits", "gradients": bool, "decode_steps", "micro_steps": n, "trainable":
[patterns], "gradient_checkpointing": bool, "tolerance": share of the largest value that rounding may
take}; request["twin"]: {"config": path or null, "name": what was asked for} instead of a model.
Rank 0 computes what one process computes and hands it out; nothing is judged here but whether a
value is off by more than the tolerance. What was found before a failure stays in request["facts"].
"""

import contextlib
import gc
import os
import shutil
import tempfile

import probe_checkpoint
import probe_gradients
import probe_logits
import probe_model
import probe_twin
from probe_compare import object_of_first
from probe_error import ProbeError


@contextlib.contextmanager
def source(request, rank, events):
    """The folder of the model, or of its twin; a folder of our own goes when the ranks are done."""
    if not request["twin"]:
        with probe_model.model_folder(request, rank, events) as folder:
            yield folder
        return
    scratch = os.path.dirname(os.path.abspath(request["result"]))
    folder = os.path.join(scratch, "twin")
    facts = None
    if rank == 0:
        events("twin", f"a tiny twin of {request['twin']['name']}")
        config = probe_twin.config_of(request["twin"]["config"], request["twin"]["name"])
        model, facts = probe_twin.make(config, request["tp"], request["seed"])
        model.save_pretrained(folder)
        request["original"] = dict(model.named_parameters())
        events("twin", f"{facts['class']}, {facts['layers']} layers, {facts['parameters']} parameters")
    request["facts"]["twin"] = object_of_first(facts)
    try:
        yield folder
    finally:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)


def reference(request, folder, rank, events):
    """What one process computes, on rank 0; None elsewhere. The others wait."""
    found = None
    if rank == 0:
        events("reference", "loading the model in one process")
        model = probe_model.from_pretrained(folder, request | {"tp": 1, "plan": None})
        model.eval()
        found = {"weights": dict(model.named_parameters())}
        if request["twin"]:
            again = probe_checkpoint.differences(request.pop("original"), found["weights"])
            request["facts"]["one_process"] = again
        try:
            if request["oracle"]["logits"]:
                events("reference", "logits of one process")
                found["logits"] = probe_logits.reference(model, request)
            if request["oracle"]["gradients"]:
                events("reference", "one backward of one process")
                found["gradients"] = probe_gradients.reference(model, request)
        except Exception as error:
            raise ProbeError("reference-error", str(error)) from error
        gc.collect()
    object_of_first("ready")
    return found


def logits_right(facts):
    return facts["wrong_step"] is None


def measure(request, rank, events, environment):
    """The entries of the result."""
    facts = request["facts"] = {"logits": None, "gradients": None}
    with source(request, rank, events) as folder:
        if request["input_ids"] is None:
            request["input_ids"] = probe_twin.prompt_of(probe_model.read_config(folder))
        expected = reference(request, folder, rank, events)
        model, hooks = probe_model.load_plan(folder, request, events)
        environment["attention"] = model.config.get_text_config()._attn_implementation
        registered = {"after_load": hooks.registered(model)}
        if request["twin"]:
            examine(model, request, expected, events)
        compare(model, hooks, request, expected, events)
    registered["at_end"] = hooks.registered(model)
    if request["twin"]:
        facts["hooks"]["at_end"] = probe_checkpoint.hook_facts(model)
    return {"facts": facts, "hooks": hooks.description() | registered, "warnings": hooks.warnings}


def examine(model, request, expected, events):
    """What only a twin is asked; before its first forward, which may fail."""
    facts, weights = request["facts"], expected and expected["weights"]
    facts["plan"] = dict(model.tp_plan)
    events("load", "weights on each rank against one process'")
    facts["load"] = probe_checkpoint.load_facts(model, weights)
    events("save", "save_pretrained of the sharded model, then one process loads it")
    scratch = os.path.dirname(os.path.abspath(request["result"]))
    facts["save"] = probe_checkpoint.save_facts(model, request, weights, scratch)
    facts["hooks"] = {"after_load": probe_checkpoint.hook_facts(model)}
    if facts["hooks"]["after_load"]["module_backward"]:
        events("compile", "counting the graphs that module hooks break")
        facts["graphs"] = probe_checkpoint.graph_facts(model, request, events)


def compare(model, hooks, request, expected, events):
    facts, wanted = request["facts"], request["oracle"]
    if wanted["logits"]:
        events("prefill", f"the same on {request['tp']} ranks")
        facts["logits"] = probe_logits.compare(model, request, expected and expected["logits"])
    if wanted["gradients"] and (facts["logits"] is None or logits_right(facts["logits"])):
        events("train", f"{wanted['micro_steps']} backwards on {request['tp']} ranks")
        facts["gradients"] = probe_gradients.compare(
            model, hooks, request, expected and expected["gradients"]
        )
