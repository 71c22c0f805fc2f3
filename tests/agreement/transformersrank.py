#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of a persistent group that runs plans on real transformers, one after the other.

usage: transformersrank.py PLANS.json RESULTS.jsonl FIRST   (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them)
PLANS.json: a list of {"model": folder, "tp_plan": {..}}. Rank 0 appends one line a plan: {"index", "ranks": [{"outcome",
"error", "wrong_parameters"}..]}, judged as the recorded plans were: 12 tokens, logits 1e-3, gradients 1e-3 of their norm.
After a plan that leaves the ranks out of step it ends; whoever started it goes on with the next plan.
"""
import datetime
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
import transformers.distributed.mixin as mixin
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig

OUT_OF_STEP = ("Timed out", "timeout", "closed", "Connection", "EOF", "reset by peer")


def keep_meshes():
    """Device meshes are collective to make: one is enough for all plans."""
    make, meshes = mixin.initialize_distributed_mesh, {}

    def kept(config):
        key = (config.tp_size, config.ep_size)
        if key not in meshes:
            meshes[key] = make(config)
        return meshes[key]

    mixin.initialize_distributed_mesh = kept


def full(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def load(folder, **arguments):
    """The class that the config names: an AutoModelForCausalLM has none for vision-language models."""
    with open(os.path.join(folder, "config.json")) as file:
        name = json.load(file)["architectures"][0]
    return getattr(transformers, name).from_pretrained(folder, **arguments)


def text_of(error):
    return "%s: %s" % (type(error).__name__, str(error)[:300])


class Reference:
    """What one process computes; by model."""

    def __init__(self, folder):
        model = load(folder)
        self.ids = torch.tensor([[(i * 37 + 11) % 250 for i in range(12)]])
        with torch.no_grad():
            self.logits = model(self.ids, use_cache=False).logits
        model.train()
        model(self.ids, labels=self.ids, use_cache=False).loss.backward()
        self.gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        self.largest = max(float(g.norm()) for g in self.gradients.values())

    def wrong_parameters(self, model):
        wrong, parameters = [], dict(model.named_parameters())
        for name, truth in self.gradients.items():
            gradient = parameters[name].grad
            found = torch.zeros_like(truth) if gradient is None else full(gradient)
            error = float((found - truth).norm()) if found.shape == truth.shape else float("inf")
            # Some gradients are zero by mathematics and noise in floats.
            if not error <= max(1e-3 * float(truth.norm()), 1e-6 * self.largest):
                wrong.append(name)
        return wrong


def run(plan, reference, world):
    try:
        config = DistributedConfig(tp_plan=plan["tp_plan"] or "auto", tp_size=world)
        model = load(plan["model"], distributed_config=config)
    except Exception as error:
        return {"outcome": "rejected", "error": text_of(error)}
    try:
        with torch.no_grad():
            logits = full(model(reference.ids, use_cache=False).logits)
    except Exception as error:
        return {"outcome": "forward-error", "error": text_of(error)}
    if logits.shape != reference.logits.shape or not float((logits - reference.logits).abs().max()) < 1e-3:
        return {"outcome": "wrong-logits"}
    try:
        model.train()
        model(reference.ids, labels=reference.ids, use_cache=False).loss.backward()
        wrong = reference.wrong_parameters(model)
    except Exception as error:
        return {"outcome": "wrong-gradients", "error": text_of(error)}
    return {"outcome": "wrong-gradients" if wrong else "ok", "wrong_parameters": wrong}


def main():
    plans_path, results_path, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    side = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=60))  # in step whatever a plan does
    keep_meshes()
    with open(plans_path) as file:
        plans = json.load(file)
    references = {}
    for index in range(first, len(plans)):
        plan = plans[index]
        if plan["model"] not in references:
            references[plan["model"]] = Reference(plan["model"])
        results = [None] * dist.get_world_size()
        dist.all_gather_object(results, run(plan, references[plan["model"]], len(results)), group=side)
        if dist.get_rank() == 0:
            with open(results_path, "a") as file:
                file.write(json.dumps({"index": index, "ranks": results}) + "\n")
        dist.barrier(group=side)
        if any(word in result.get("error", "") for result in results for word in OUT_OF_STEP):
            os._exit(0)  # destroying a group whose ranks are out of step may wait for ever


if __name__ == "__main__":
    main()
