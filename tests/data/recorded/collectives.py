# SPDX-License-Identifier: GPL-3.0-or-later
"""What real transformers exchanges on 2 ranks, counted by a dispatch mode of torch: per decode step, and per training
step with its hooks. python collectives.py TPSCOPE writes collectives.json beside it."""
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "fixtures" / "models"


def ask(program, verb, folder, *more):
    command = [program, verb, "--model", str(folder), "--tp", "2", "--backend", "transformers", "--format", "json",
               "--quiet", *more]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    found = answer["collectives"]
    return (found["measured"] if verb == "gradcheck" else found), answer["environment"]["versions"]


def main(program):
    models = {}
    for folder in sorted(MODELS.iterdir()):
        kind = json.loads((folder / "config.json").read_text())["model_type"]
        if folder.name in (kind, "llama_tied"):
            step, versions = ask(program, "run", folder, "--eager", "--new-tokens", "4")
            models[folder.name] = {"decode_step": step, "training_step": ask(program, "gradcheck", folder)[0]}
    rows = ",\n".join(f' "{name}": {json.dumps(entry)}' for name, entry in models.items())
    (HERE / "collectives.json").write_text(
        '{"versions": ' + json.dumps({key: versions[key] for key in ("torch", "transformers")}) + ',\n"models": {\n' + rows + "\n}}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
