# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the include rules of core/README.md; exits 1 with one line a violation.

1. core/<folder> includes only itself and the folders below it in the pipeline.
2. No Qt in core or app/cli; LibTorch only in core/exec.
3. Models (widgets/models) know no QWidget; nobody includes app.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "model": {"base"},
    "arch": {"base", "model"},
    "plan": {"base", "model", "arch"},
    "shard": {"base", "model", "arch", "plan"},
    "lint": {"base", "model", "arch", "plan", "shard"},
    "graph": {"base", "model", "arch", "plan", "shard"},
}
ALLOWED["run"] = {"base", "model", "arch", "plan", "shard", "lint", "graph"}
ALLOWED["session"] = ALLOWED["run"] | set()
ALLOWED["measure"] = ALLOWED["run"] | {"run"}
ALLOWED["store"] = ALLOWED["measure"] | {"measure"}
ALLOWED["probe"] = ALLOWED["run"] | {"run"}
ALLOWED["exec"] = ALLOWED["run"] | {"run"}
ALLOWED["report"] = ALLOWED["measure"] | {"measure", "session"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|gloo)/")
QT = re.compile(r"^(Q[A-Z]|Qt|Qsci|qcustomplot)")


def violations(root: pathlib.Path):
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".h", ".cpp")):
        parts = path.relative_to(root).parts
        if parts[0] not in ("core", "app", "widgets"):
            continue
        folder = parts[1]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(2)
            where = f"{path.relative_to(root)}:{number}"
            first = target.split("/")[0]
            if TORCH.match(target) and not (parts[0] == "core" and folder == "exec"):
                yield f"{where}: LibTorch ({target}) belongs in core/exec only"
            if QT.match(target) and (parts[0] == "core" or parts[:2] == ("app", "cli")):
                yield f"{where}: Qt ({target}) does not belong in {parts[0]}/{folder}"
            if target.startswith("app/") and parts[0] != "app":
                yield f"{where}: nobody includes app"
            if parts[:2] == ("widgets", "models") and target in ("QWidget", "QtWidgets"):
                yield f"{where}: item models know no QWidget"
            if parts[0] == "core" and first in ALLOWED and first != folder and first not in ALLOWED[folder]:
                yield f"{where}: core/{folder} must not include core/{first} (it is not below it in the pipeline)"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = list(violations(root))
    checked = sum(1 for p in (root / "core").rglob("*.h"))
    if checked == 0:
        print(f"no headers found under {root}/core")
        return 1
    print("\n".join(found) if found else f"include rules hold ({checked} headers in core)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
