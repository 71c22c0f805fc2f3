#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue says of a family is what the installed transformers applies to a model of it.

usage: catalogueagreement.py TPSCOPE [--families N] [--only NAME ...]
TPSCOPE: the command line. Builds models on the meta device with the library's automatic classes, from default configs
with other numbers of layers, and wholes of other parts where a config chooses those. Compares with `tpscope plans
show`: the merged plan rule by rule, and every module and parameter that `auto` at tp 2 (and ep 2) gives a style to. N
families, evenly spread (0: all). Exits with 1 and prints each disagreement, with 77 where there is no such Python. The Python is
TPSCOPE_PYTHON, else that of build/venv.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

# Wholes whose config.json chooses the model type of their text, with texts that are not the default.
CHOSEN = (
    ("internvl", "qwen3"), ("internvl", "qwen3_moe"), ("llava", "mistral"), ("llava_onevision", "gemma"),
    ("idefics3", "qwen3"), ("kimi_k25", "mixtral"), ("mistral3", "ministral3"), ("paligemma", "gemma2"),
    ("llava", "gpt_neox"), ("llava", "recurrent_gemma"),
)
AUTO = ("CausalLM", "ImageTextToText", "MultimodalLM", "SpeechSeq2Seq", "Seq2SeqLM", "MaskedLM", "PreTraining")
LAYERS = 3


def find_python():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.environ.get("TPSCOPE_PYTHON") or os.path.join(root, "build", "venv", "bin", "python")


def shown(program, words):
    return json.loads(subprocess.run([program, "plans", *words, "--format", "json"], check=True, capture_output=True,
                                     text=True).stdout)


def shortened(values):
    """Fewer layers, where the library lets one say so."""
    out = {}
    for key, value in values.items():
        if isinstance(value, dict):
            value = shortened(value)
        elif isinstance(value, list) and key.endswith("layer_types"):
            value = value[:LAYERS]
        elif key == "num_hidden_layers" and isinstance(value, int):
            value = min(value, LAYERS)
        out[key] = value
    return out


def configs(kind, transformers):
    config = transformers.CONFIG_MAPPING[kind]
    yield lambda: config.from_dict(shortened(config().to_dict()))
    yield config


def model_of(kind, class_name, torch, transformers):
    """A model of that class through the automatic classes; (None, why) where default values do not make one."""
    if kind not in transformers.CONFIG_MAPPING:
        return None, "a part without a config.json of its own"
    why = f"no automatic class makes a {class_name}"
    for make in configs(kind, transformers):
        for auto in (*(f"AutoModelFor{task}" for task in AUTO), "AutoModel"):
            factory = getattr(transformers, auto, None)
            try:
                config = make()
                names = factory._model_mapping[type(config)]
                if class_name not in [cls.__name__ for cls in (names if isinstance(names, tuple) else (names,))]:
                    continue
                with torch.device("meta"):
                    model = factory.from_config(config)
            except Exception as error:  # whatever a class' own code raises
                why = f"{type(error).__name__}: {error}".splitlines()[0] if not isinstance(error, KeyError) else why
                continue
            if type(model).__name__ == class_name:
                return model, ""
    return None, why


def chosen(program, torch, transformers):
    """(name, model, plan) of each whole with another text."""
    for kind, text in CHOSEN:
        config = transformers.CONFIG_MAPPING[kind](text_config=transformers.CONFIG_MAPPING[text]())
        with tempfile.TemporaryDirectory() as folder, torch.device("meta"):
            config.save_pretrained(folder)
            plan = shown(program, ["show", os.path.join(folder, "config.json")])
            yield f"{kind} of {text}", transformers.AutoModelForImageTextToText.from_config(config), plan


def generic(name):
    """As plans are keyed: the first of adjacent numbers alone is a wildcard."""
    return re.sub(r"\.\d+(\.|$)", lambda match: ".*" + match[1], name)


def expanded(model, plan):
    """Which names take which style, by the catalogue's rules."""
    styles = {}
    for name, module in model.named_modules():
        for own, _ in module.named_parameters(recurse=False):
            full = f"{name}.{own}" if name else own
            key = generic(full)
            style = plan.get(key) or plan.get(key.rpartition(".")[0]) if "." in key else plan.get(key)
            if style:
                styles[full] = style
        if style := plan.get(generic(name)):
            styles[name] = style
    return styles


def disagreements(model, plan):
    from transformers.distributed.configuration_utils import DistributedConfig

    tp, ep = plan["tp_plan"], plan["ep_plan"]
    for what, own, listed in (("tp_plan", model.tp_plan, tp), ("ep_plan", model.ep_plan, ep)):
        for key in own.keys() | listed.keys():
            if own.get(key) != listed.get(key):
                yield f"{what} {key}: the library says {own.get(key)}, the catalogue {listed.get(key)}"
    if tp:
        applied, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_plan="auto", tp_size=2))
        yield from different("at tp 2", applied, expanded(model, tp))
    if tp and ep:
        applied, experts, _ = model._resolve_parallel_plans(DistributedConfig(tp_plan="auto", tp_size=2, ep_size=2))
        dense = {key: style for key, style in tp.items() if not any(key == e or key.startswith(e + ".") for e in ep)}
        yield from different("at tp 2, ep 2", applied, expanded(model, dense))
        yield from different("ep_plan at ep 2", experts, expanded(model, ep))


def different(what, applied, ours):
    for name in sorted(applied.keys() | ours.keys()):
        if applied.get(name) != ours.get(name):
            yield f"{what} {name}: the library applies {applied.get(name)}, the catalogue says {ours.get(name)}"


def compare(arguments):
    os.environ |= {"HF_HUB_OFFLINE": "1", "WORLD_SIZE": "2"}
    warnings.simplefilter("ignore")
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    names = [plan["name"] for plan in shown(arguments.tpscope, ["list"])["plans"]]
    if arguments.only:
        names = arguments.only
    elif arguments.families:
        step = max(1, len(names) // arguments.families)
        names = names[::step]
    compared, left, wrong = 0, [], 0
    for name in names:
        plan = shown(arguments.tpscope, ["show", name])
        if plan["upstream"] != f"transformers {transformers.__version__}":
            print(f"not run: the catalogue is of {plan['upstream']}, the library is {transformers.__version__}")
            return 77
        model, why = model_of(name, plan["class"], torch, transformers)
        if model is None:
            left.append(f"{name}: {why}")
            continue
        compared += 1
        for line in disagreements(model, plan):
            wrong += 1
            print(f"{name}: {line}")
    for name, model, plan in chosen(arguments.tpscope, torch, transformers) if not arguments.only else ():
        compared += 1
        for line in disagreements(model, plan):
            wrong += 1
            print(f"{name}: {line}")
    for line in left:
        print(f"not compared: {line[:160]}")
    print(f"{compared} families compared, {len(left)} not, {wrong} disagreements")
    return 1 if wrong or not compared else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tpscope")
    parser.add_argument("--families", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    python = find_python()
    try:
        import transformers  # noqa: F401
    except ImportError:
        if os.environ.get("CATALOGUE_AGREEMENT") or not os.path.exists(python):
            print("not run: no Python with torch and transformers")
            return 77
        environment = os.environ | {"CATALOGUE_AGREEMENT": "1"}
        return subprocess.run([python, *sys.argv], env=environment).returncode
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
