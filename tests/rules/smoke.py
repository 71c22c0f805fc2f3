# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint and graph of the bundled Qwen3 through the command line against the recorded truth."""
import json
import pathlib
import subprocess
import sys

program, fixtures = sys.argv[1], pathlib.Path(sys.argv[2])


def tpscope(*arguments):
    run = subprocess.run([program, *arguments, "--format", "json"], capture_output=True, text=True, timeout=120)
    return run.returncode, json.loads(run.stdout)


code, lint = tpscope("lint", "--model", "qwen3-tiny", "--tp", "2", "--train")
assert (code, lint["outcome"]) == (0, "ok"), (code, lint)
recorded = json.loads((fixtures / "graph_breaks.json").read_text())["families"]["qwen3"]["5.21.1"]["2"]
code, graph = tpscope("graph", "--model", "qwen3-tiny", "--tp", "2", "--hooks", "module-backward")
assert code == 0 and graph["graph_breaks"] == recorded["explain"]["graph_break_count"], graph
for phase in ("prefill", "decode"):
    assert graph[phase]["launches"] == recorded[phase]["launches"], (phase, graph[phase])
print("lint and graph agree with the recorded truth")
