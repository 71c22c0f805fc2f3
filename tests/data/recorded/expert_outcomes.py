# SPDX-License-Identifier: GPL-3.0-or-later
"""What transformers does with the plans of expert_outcomes.json, run again on Gloo ranks.

python expert_outcomes.py [CASE...]     tells the rows whose verdict differs; exit status 1 when any does
python expert_outcomes.py --write       writes what was found into the file

Needs torch and transformers as the file's "versions" say. Each rank loads the dense model too and compares: logits of a
forward without gradients (1e-3), then every gradient of one backward (relative error 1e-3).
"""
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.distributed import DistributedConfig
from transformers.utils import logging

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "fixtures" / "models"
KINDS = {"all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather_into_tensor": "all_gather",
         "alltoall_base": "all_to_all", "all_to_all_single": "all_to_all"}


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = {"all_reduce": 0, "all_gather": 0, "all_to_all": 0}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented
        space, name = func.name().split("::")
        name = name.split(".")[0].strip("_")
        if "c10d" in space and name in KINDS:
            self.seen[KINDS[name]] += 1
        return func(*args, **(kwargs or {}))


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def step(model, ids):
    model.zero_grad()
    loss = model(ids, labels=ids).loss
    loss.backward()


def wrong_gradients(model, reference):
    wrong = []
    for name, parameter in model.named_parameters():
        truth = reference[name]
        found = torch.zeros_like(truth) if parameter.grad is None else whole(parameter.grad)
        if found.shape != truth.shape or (found - truth).norm() > 1e-3 * truth.norm():
            wrong.append(name)
    return wrong


def compare(folder, case, ids, facts):
    extra = case["extra"]
    dense = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        expected = dense(ids).logits
    step(dense, ids)
    reference = {n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in dense.named_parameters()}
    arguments = {k: extra[k] for k in ("ep_size", "ep_plan", "enable_expert_parallel") if k in extra}
    if not extra.get("no_tp_size"):
        arguments["tp_size"] = case["tp"]
    config = AutoConfig.from_pretrained(folder)
    if "config_ep_plan" in extra:
        config.base_model_ep_plan = extra["config_ep_plan"]
    facts["stage"] = "load"
    distributed = DistributedConfig(tp_plan=case["plan"], **arguments)
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32,
                                                 distributed_config=distributed)
    facts["stage"] = "forward"
    with torch.no_grad(), Count() as inference:
        logits = whole(model(ids).logits)
    facts["right"] = logits.shape == expected.shape and bool((logits - expected).abs().max() < 1e-3)
    facts["stage"] = "training"
    with Count() as training:
        step(model, ids)
    facts["wrong_gradients"] = wrong_gradients(model, reference)
    facts["collectives"] = {"inference": inference.seen, "training": training.seen}
    facts["stage"] = "done"


def rank_main(rank, folder, case, ids, temporary):
    facts = {"stage": "start"}
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(case["tp"]), MASTER_ADDR="127.0.0.1")
    try:
        dist.init_process_group("gloo", init_method=f"file://{temporary}/store", rank=rank, world_size=case["tp"],
                                timeout=datetime.timedelta(seconds=20))
        compare(folder, case, ids, facts)
    except Exception as error:  # whatever the library raises is a result
        facts["message"] = str(error)
    Path(temporary, f"{rank}.json").write_text(json.dumps(facts))


def run(folder, case, ids):
    """Ranks are forks of this process. One that waits for a rank that has failed is ended."""
    temporary = tempfile.mkdtemp()
    ranks = set()
    for rank in range(case["tp"]):
        child = os.fork()
        if child == 0:
            try:
                rank_main(rank, folder, case, ids, temporary)
            finally:
                os._exit(0)
        ranks.add(child)
    first, limit = None, time.time() + 120
    while ranks and time.time() < limit and not (first and time.time() > first + 10):
        ended, _ = os.waitpid(-1, os.WNOHANG)
        if ended:
            ranks.discard(ended)
            first = first or time.time()
        else:
            time.sleep(0.02)
    for child in ranks:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    found = []
    for rank in range(case["tp"]):
        path = Path(temporary, f"{rank}.json")
        found.append(json.loads(path.read_text()) if path.exists() else {"stage": "ended"})
    shutil.rmtree(temporary)
    return found


def verdict(ranks):
    stages = {rank["stage"] for rank in ranks}
    if stages & {"start", "load"}:
        return "rejected"
    if "forward" in stages:
        return "forward-error"
    if not all(rank.get("right", True) for rank in ranks):
        return "wrong-logits"
    return "wrong-gradients" if "training" in stages or any(r.get("wrong_gradients") for r in ranks) else "ok"


def folder_of(case, temporary):
    """The recorded model, or one with random weights where the case changes the config."""
    changes = case["extra"].get("config")
    if not changes:
        return MODELS / case["model"]
    folder = Path(temporary, case["case"])
    child = os.fork()
    if child == 0:
        config = AutoConfig.from_pretrained(MODELS / case["model"])
        for key, value in changes.items():
            setattr(config, key, value)
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        os._exit(0)
    os.waitpid(child, 0)
    return folder


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    path = HERE / "expert_outcomes.json"
    data = json.loads(path.read_text())
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        for case in data["plans"]:
            if wanted and case["case"] not in wanted:
                continue
            ids = torch.tensor([[(17 + 29 * i) % 250 for i in range(12)]])
            ranks = run(folder_of(case, temporary), case, ids)
            found = verdict(ranks)
            if found != case["verdict"]:
                different += 1
                print(f"{case['case']}: recorded {case['verdict']}, found {found}", flush=True)
            case["verdict"] = found
            if "collectives" in case and found == "ok":
                case["collectives"] = ranks[0]["collectives"]
    if "--write" in sys.argv:
        rows = ",\n".join("  " + json.dumps(case) for case in data["plans"])
        head = json.dumps({k: v for k, v in data.items() if k != "plans"}, indent=1)[:-2]
        path.write_text(f'{head},\n "plans": [\n{rows}\n ]\n}}\n')
    print(f"{different} verdicts differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
