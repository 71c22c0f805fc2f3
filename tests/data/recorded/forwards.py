# SPDX-License-Identifier: GPL-3.0-or-later
"""Forwards of real transformers that the recorded models' own files do not hold: in bfloat16 and float16, and of a batch
padded on the left. python forwards.py writes forwards.json beside it.

Each model: the last position's logits of its recorded prompt, {dtype: [V], or what the forward
raises}; "padded": the prompts, 4 greedy ids of each,
as generate() chooses them, and the last position's logits of the prefill.
"""
import json
import os
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
import torch
import transformers

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "fixtures" / "models"
PROMPTS = [[17, 203, 5, 88, 41], [17, 203, 5, 88, 41, 150, 9, 230, 64, 121, 33, 77], [64]]


def short(values):
    return [float(f"{value:.5g}") for value in values]


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


@torch.no_grad()
def half(folder, dtype, ids):
    try:
        logits = load(folder, dtype)(input_ids=torch.tensor([ids]), use_cache=False).logits
    except RuntimeError as error:  # expert products want rows of whole 16 bytes
        return str(error)
    return short(logits[0, -1].float().tolist())


@torch.no_grad()
def padded(folder):
    model = load(folder, torch.float32)
    longest = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in PROMPTS])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in PROMPTS])
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=position, use_cache=False).logits
    model.generation_config.eos_token_id = None
    made = model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0)
    return {
        "prompts": PROMPTS,
        "ids": made[:, longest:].tolist(),
        "last_logits": [short(row) for row in logits[:, -1].tolist()],
    }


def main():
    out = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "models": {}}
    for folder in sorted(MODELS.iterdir()):
        config = json.loads((folder / "config.json").read_text())
        if folder.name not in (config["model_type"], "qwen3_moe_mi36"):
            continue  # the same family again
        ids = json.loads((folder / "expected.json").read_text())["input_ids"]
        out["models"][folder.name] = {
            "bfloat16": half(folder, torch.bfloat16, ids),
            "float16": half(folder, torch.float16, ids),
            "padded": padded(folder),
        }
    rows = [f' "{name}": {json.dumps(entry)}' for name, entry in out["models"].items()]
    text = '{"versions": ' + json.dumps(out["versions"]) + ',\n"models": {\n' + ",\n".join(rows) + "\n}}\n"
    (HERE / "forwards.json").write_text(text)


if __name__ == "__main__":
    main()
