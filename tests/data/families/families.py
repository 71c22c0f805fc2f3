#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What transformers does with the plans of the families described beyond the first fixtures, run again on Gloo ranks.

python families.py [NAME...]     tells the rows that differ; exit status 1 when any does
python families.py --write       writes what was found into the files

Each NAME.json holds a tiny model's "config", its "parameters" with shapes (of the text backbone, in vision-language models)
and "plans" with what two ranks of transformers 5.24 did: "outcome", "wrong" (parameters whose gradients were) and
"raised" (the training forward or backward raised). An empty tp_plan stands for `auto`. Weights are random by a fixed seed.
"graphs", where there are any: [graphs, launches, counted breaks] of `auto` under torch.compile on two ranks, by hooks, as
`tpscope run --backend transformers` measures them with 8 prompt tokens; this script leaves them alone.
"""
import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "agreement"))
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
import transformersagreement as agreement
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VISION = ("vision", "visual", "projector", "connector")


def make(config, folder):
    """Saves the model of this config with weights that let every part of it matter; its parameters."""
    torch.manual_seed(0)
    config = CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
    model = getattr(transformers, config.architectures[0])(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if parameter.ndim == 1:
                parameter.add_(0.1 * noise)
            else:
                parameter.copy_(noise * (1.0 if "embed" in name and not config.tie_word_embeddings else 0.15))
    model.save_pretrained(folder)
    return {name: list(p.shape) for name, p in model.named_parameters() if not any(word in name for word in VISION)}


def found(rows, results):
    for row, ranks in zip(rows, results):
        outcome, wrong = agreement.verdict(ranks)
        new = {"tp_plan": row["tp_plan"], "outcome": outcome}
        if wrong:
            new["wrong"] = wrong
        if outcome == "wrong-gradients" and any("error" in rank for rank in ranks):
            new["raised"] = True
        yield new


def written(record):
    lines = ",\n".join("  " + json.dumps(row) for row in record["plans"])
    head = json.dumps({key: record[key] for key in ("config", "parameters", "graphs") if key in record}, indent=1)[:-2]
    return head + ',\n "plans": [\n' + lines + "\n ]\n}\n"


def main():
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    paths = [path for path in sorted(HERE.glob("*.json")) if not names or path.stem in names]
    records = {path: json.loads(path.read_text()) for path in paths}
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        plans, parameters = [], {}
        for path, record in records.items():
            model = os.path.join(folder, path.stem)
            parameters[path] = make(record["config"], model)
            plans += [{"model": model, "tp_plan": row["tp_plan"]} for row in record["plans"]]
        results = agreement.execute(agreement.find_python(), plans, folder)
    start = 0
    for path, record in records.items():
        rows = list(found(record["plans"], [results[start + i] for i in range(len(record["plans"]))]))
        start += len(rows)
        for old, new in zip(record["plans"], rows):
            if old != new:
                differing += 1
                print(path.stem, json.dumps(old["tp_plan"]), old.get("outcome"), "->", new["outcome"], new.get("wrong", ""))
        if parameters[path] != record["parameters"]:
            differing += 1
            print(path.stem, "has other parameters")
        record.update(parameters=parameters[path], plans=rows)
        if "--write" in sys.argv:
            path.write_text(written(record))
    print("%d plans over %d models, %d differ" % (start, len(records), differing))
    return 1 if differing and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
