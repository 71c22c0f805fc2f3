# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the built-in tensor-parallel plans of every model family that the installed transformers has.

    python tpscope_plans.py --request request.json

Builds one model a family on the meta device, since a plan is put together when a model is: class, configuration and
sub-models each give their part. Never uses remote code or the network, never reads weights.

Request: {"result": path, "events": path or null, "only": [model types] or null}; result and events as in
tpscope_probe.py.
Result: {"format": 1, "stage": "done", "environment": {"transformers", "torch", "python"},
  "families": [facts of one, see probe_families.facts], "failed": [{"model_type", "class", "message"}]}: failed are
families that carry a plan and could not be built; or {"format": 1, "stage": "environment" | "run-failed", "type",
"message"}.
"""

import argparse
import json
import os
import platform
import sys
import traceback

from tpscope_probe import FORMAT, Events, die_with_parent, write_once


def read(events, only):
    events("load", "importing torch and transformers")
    import torch
    import transformers

    import probe_families

    versions = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    families, failed = probe_families.read_all(events, only)
    done = {"format": FORMAT, "stage": "done", "environment": versions}
    return done | {"families": families, "failed": failed}


def main():
    parser = argparse.ArgumentParser(description="Reads the built-in plans of the installed transformers.")
    parser.add_argument("--request", required=True, help="request.json, see the top of this file")
    with open(parser.parse_args().request, encoding="utf-8") as file:
        request = json.load(file)
    die_with_parent()
    try:
        result = read(Events(request.get("events"), 0), request.get("only"))
    except BaseException as error:  # also KeyboardInterrupt: whatever ends it must be told
        stage = "environment" if isinstance(error, ImportError) else "run-failed"
        failure = {"type": type(error).__name__, "message": str(error), "environment": {}}
        write_once(request["result"], {"format": FORMAT, "stage": stage, **failure})
        traceback.print_exc()
        return 2 if stage == "environment" else 3
    write_once(request["result"], result)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # hundreds of imported modules need no orderly end
