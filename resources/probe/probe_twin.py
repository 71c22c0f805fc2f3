# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny twin of any causal language model class: few layers, one of each kind at least, narrow, with
ratios of heads, divisibility and ties kept. Used by probe_oracle.py.

Rules by what a config's key means, never by a class:
  head counts     divided by one common factor that keeps which of them tp divides
  head sizes      divided by one power of two
  other widths    divided by the product of both, so that products of heads and sizes still meet;
                  what is left modulo 16 tp stays, and with it every divisibility that matters
  experts         few, still groups of equal size, still (not) divisible by tp
  layers          as many as hold one of each kind; lists with an entry a layer are cut
A twin counts when one process can compute its logits; else the next larger one is tried.
"""

import copy
import difflib
import json
import math
import os
import re

import torch
import transformers

from probe_error import ProbeError

VOCABULARY, WINDOW, EXPERTS, LAYERS = 256, 8, 8, 8
HEADS = re.compile(r"(^|_)(num|n)_(\w+_)?heads?(_|$)|(^|_)n_groups$|_heads$")
HEAD_SIZE = re.compile(r"head_dim|d_head$|(^|_)rotary_dim$|head_size$|^d_rel$")
WIDTH = re.compile(
    r"(^|_)hidden_size|intermediate_size|ffn_\w*size|(^|_)(n_embd|n_inner|d_model|d_ssm|d_ff|d_inner|d_state)$"
    r"|_rank$|lowrank$|embed_dim$|state_size$|embedding_size$|hidden_dim$"
)
EXPERT = re.compile(r"(^|_)(num|n)_(\w+_)?experts$|^expert_num$|_expert_num$")
TOP_K = re.compile(r"experts_per_tok|(^|_)topk$|^moe_k$|moe_top_k|^top_k_experts$")
GROUPS = re.compile(r"^n_group$|^num_expert_group$|^n_expert_groups?$")
WINDOWS = re.compile(r"sliding_window(_size)?$|attention_chunk_size|window_size$|index_topk$")
PERIOD = re.compile(r"interval|period|_step|every|offset|pattern|per_attn|_types?$|group_size")


def config_of(path, name):
    """The config that names a model: a file, or a model_type or class of this transformers."""
    if path:
        return from_file(path)
    mapping = transformers.CONFIG_MAPPING
    classes = {cls.__name__: cls for cls in mapping.values()}
    models = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    by_model = {model: kind for kind, model in reversed(list(models.items()))}
    if name in mapping:
        return mapping[name]()
    if name in classes:
        return classes[name]()
    if name in by_model:
        return mapping[by_model[name]]()
    near = difflib.get_close_matches(name, [*mapping, *classes, *by_model], 4)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise ProbeError(
        "load-error",
        f"transformers {transformers.__version__} has no model type, configuration or causal model "
        f"class {name!r}{hint}",
    )


def from_file(path):
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    file = path if os.path.isfile(path) else os.path.join(folder, "config.json")
    try:
        return transformers.AutoConfig.from_pretrained(file, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProbeError("load-error", f"{file}: {error}") from error


def causal_config(config):
    """The config of the part that a causal language model class takes."""
    classes = transformers.AutoModelForCausalLM._model_mapping
    for candidate in (config.get_text_config(), config):
        if type(candidate) in classes:
            return candidate
    raise ProbeError(
        "load-error",
        f"{type(config).__name__} has no causal language model class in transformers "
        f"{transformers.__version__}",
    )


class Shrink:
    """A config's values made small. halvings: of the head size. keep_rest: what a width is modulo
    16 tp; values nobody runs, since the class' defaults are incomplete, need not keep it."""

    def __init__(self, config, values, tp, halvings, keep_rest):
        self.config, self.tp, self.values, self.keep_rest = config, tp, values, keep_rest
        self.period = 16 * tp
        self.heads = self.head_factor()
        self.size = 2**halvings
        self.width = self.heads * self.size

    def key(self, standard):
        """How this config spells a standard key; None: it has none."""
        mapped = type(self.config).attribute_map.get(standard, standard)
        for name in (mapped, standard, standard.replace("hidden_", ""), standard.replace("num_hidden", "n")):
            if name in self.values:
                return name
        return None

    def numbers(self, pattern):
        for key, value in self.values.items():
            if pattern.search(key) and not PERIOD.search(key):
                for number in value if isinstance(value, list) else [value]:
                    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
                        yield number

    def head_factor(self):
        """The largest common divisor of the head counts that leaves two of each, and for each whether
        tp divides it; a single head stays single."""
        counts = [n for n in self.numbers(HEADS) if n > 1]
        for factor in range(math.gcd(*counts) if counts else 1, 1, -1):
            left = [n // factor for n in counts]
            if all(m > 1 and math.gcd(m, self.tp) == math.gcd(n, self.tp) for m, n in zip(left, counts)):
                return factor
        return 1

    def shrunk_width(self, value):
        """Divided, but the same modulo 16 tp unless it divides evenly."""
        small = value // self.width
        if value % self.width == 0 and (value % self.period or small % self.period == 0):
            return max(small, 4)
        rest = value % self.period if self.keep_rest else 0
        return max(1, small // self.period) * self.period + rest

    def hidden(self, value):
        """The model's own width: products of heads and head size must meet it, so it is divided only."""
        if value % self.width == 0:
            return value // self.width
        return self.shrunk_width(value)

    def experts(self, value):
        groups = max([min(n, 2) for n in self.numbers(GROUPS)], default=1)
        if value <= EXPERTS:
            return value
        return EXPERTS if value % self.tp == 0 else EXPERTS + value % self.tp * groups

    def vocabulary(self, key, value):
        """A part of the vocabulary stays a part."""
        whole = self.values.get("vocab_size", value)
        if key != "vocab_size" and whole - self.period < value < whole:
            return self.vocabulary("vocab_size", whole) - (whole - value)
        if key != "vocab_size" and value <= whole:
            return min(value, self.vocabulary("vocab_size", whole))
        return VOCABULARY + value % self.period if value > 2 * VOCABULARY else value

    def number(self, key, value):
        if "vocab_size" in key:
            return self.vocabulary(key, value)
        if key.endswith(("token_id", "token_index")):
            return min(value, VOCABULARY - 1)
        if PERIOD.search(key):
            return value
        if GROUPS.search(key) or "shared_expert" in key and value <= 8:
            return min(value, 2)
        if key == "topk_group":
            return min(value, 2 if any(n == value for n in self.numbers(GROUPS)) else 1)
        if EXPERT.search(key):
            return self.experts(value)
        if TOP_K.search(key) and "index" not in key:
            return min(value, 2)
        if WINDOWS.search(key):
            return min(value, WINDOW)
        if HEADS.search(key):
            return value // self.heads if value > 1 else value
        if HEAD_SIZE.search(key):
            return max(4, value // self.size) if value > 4 else value
        if key in (self.key("hidden_size"), "hidden_size"):
            return self.hidden(value)
        if WIDTH.search(key) and value >= 16:
            return self.shrunk_width(value)
        return value

    def value(self, key, value):
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return self.number(key, value)
        if isinstance(value, float):
            return 0.0 if "dropout" in key or key.endswith("_drop") else value
        if isinstance(value, dict):
            return {k: self.inside(key, k, v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.value(key, entry) for entry in value]
        return value

    def inside(self, outer, key, value):
        """Lists of a rotary embedding have an entry a frequency, or sections that sum to all of them."""
        if "rope" in outer and isinstance(value, list) and all(isinstance(v, (int, float)) for v in value):
            if key.endswith("_section"):
                return [v // self.size for v in value]
            return value[: max(1, len(value) // self.size)] if len(value) >= self.size else value
        return self.value(outer if "rope" in outer and isinstance(value, dict) else str(key), value)

    def narrow(self):
        return {key: self.value(key, value) for key, value in self.values.items()}


def cut_layers(values, key, layers):
    """The same config with its first `layers` layers."""
    all_layers, out, counts = values[key], dict(values), {}
    for name, value in values.items():
        if isinstance(value, list) and len(value) == all_layers:
            out[name] = value[:layers]
        elif isinstance(value, list) and re.search(r"layers|idxs", name) and all(type(v) is int for v in value):
            out[name] = [v for v in value if v < layers]
        elif isinstance(value, dict) and value and all(str(k).isdigit() for k in value):
            out[name] = {k: v for k, v in value.items() if int(k) < layers}
        elif type(value) is int and "layer" in name and not PERIOD.search(name) and 2 < value:
            if name != key and not name.startswith("first_"):
                counts[name] = value
    smaller = {name: min(n, max(1, round(n * layers / all_layers))) for name, n in counts.items()}
    stacks = [name for name in counts if re.match(r"(num|n)_", name)]
    if stacks and sum(counts[name] for name in stacks) == all_layers:  # stacks one after the other
        layers = sum(smaller[name] for name in stacks)
    out |= smaller
    out[key] = layers
    return out


def completed(values):
    """Values for what a class needs and leaves empty by default: the simplest that can be meant."""
    heads = values.get("num_attention_heads") or 4
    out = dict(values)
    for key, value in values.items():
        if value is not None:
            continue
        if HEADS.search(key):
            out[key] = heads
        elif HEAD_SIZE.search(key):
            out[key] = values["hidden_size"] // heads
        elif GROUPS.search(key) or key == "topk_group" or "shared_expert" in key:
            out[key] = 1
        elif EXPERT.search(key):
            out[key] = EXPERTS
        elif TOP_K.search(key):
            out[key] = 2
        elif key == "layer_types":
            out[key] = ["full_attention"] * values["num_hidden_layers"]
    return out


def rope_by_type(values):
    """The same with rotary parameters of their own for each type of layer, as some classes want them."""
    rope = values.get("rope_parameters") or {"rope_type": "default", "rope_theta": 10000.0}
    types = set(values.get("layer_types") or ())
    return values if types & set(rope) else values | {"rope_parameters": {t: dict(rope) for t in types}}


def build(config, values, device="meta"):
    small = type(config).from_dict(copy.deepcopy(values))
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(small, dtype=torch.float32)


def layer_kinds(model):
    """What distinguishes the layers of the longest list of modules, one text a layer."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    layers = max(lists, key=len, default=[])

    def facts(layer):
        own = [(type(m).__name__, str(getattr(m, "layer_type", ""))) for m in layer.modules()]
        windows = [getattr(m, "sliding_window", None) for m in layer.modules()]
        shapes = [(n, tuple(p.shape)) for n, p in layer.named_parameters()]
        return repr((own, windows, shapes))

    return [facts(layer) for layer in layers]


def layers_needed(config, values, key):
    """How many of the first layers hold one of each kind."""
    kinds = layer_kinds(build(config, values))
    types = values.get("layer_types") or values.get("layers_block_type") or []
    if len(types) == len(kinds):
        kinds = [kind + str(name) for kind, name in zip(kinds, types)]
    last = max((kinds.index(kind) for kind in set(kinds)), default=0)
    return min(max(2, min(last + 1, LAYERS)), values[key])


def fill(model, seed):
    """Weights that make every parameter matter: an initialisation to ones, zeros or 0.02 hides errors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            spread = parameter.std().item() if parameter.numel() > 1 else 0.0
            mean = parameter.mean().item() if parameter.numel() else 0.0
            if parameter.ndim >= 2 and abs(mean) <= spread + 1e-3:
                parameter.copy_(noise / math.sqrt(max(1, parameter.shape[-1])))
            else:
                parameter.add_(0.1 * noise)


def prompt_of(config):
    """12 ids that the model's vocabulary has."""
    vocabulary = config.get_text_config().vocab_size
    return [[(17 + 29 * i) % vocabulary for i in range(12)]]


def forward_works(model):
    ids = torch.tensor(prompt_of(model.config))
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
    return bool(torch.isfinite(logits).all())


def halvings_of(values):
    """Of the head size, the most first."""
    heads = values.get("num_attention_heads") or values.get("n_head") or 1
    width = values.get("hidden_size") or values.get("n_embd") or 16
    size = values.get("head_dim") or width // heads
    return range(max(0, int(math.log2(max(1, size / 16)))), -1, -1)


def attempts(config, tp):
    """Ever less changed configs: narrower before wider, few layers before all, as given before completed."""
    given = config.to_dict()
    full = completed(given)
    for values in (given, full, rope_by_type(full)):
        for cut in (True, False):
            for halvings in halvings_of(values):
                yield Shrink(config, values, tp, halvings, keep_rest=values is given), cut


def attempt(config, shrink, cut, seed):
    values = shrink.narrow()
    key = shrink.key("num_hidden_layers")
    if cut and key:
        values = cut_layers(values, key, layers_needed(config, values, key))
    size = sum(p.numel() for p in build(config, values).parameters())
    if size > 200e6:
        raise ValueError(f"its smallest twin still has {size} parameters")
    torch.manual_seed(seed)
    model = build(config, values, "cpu").eval()
    fill(model, seed)
    if not forward_works(model):
        raise ValueError("its logits are not finite")
    return model


def make(config, tp, seed):
    """The twin, in evaluation mode, and what was changed. Raises ProbeError with the first reason."""
    config = causal_config(config)
    reason = None
    for shrink, cut in attempts(config, tp):
        try:
            model = attempt(config, shrink, cut, seed)
            return model, description(config, model, config.to_dict())
        except Exception as error:
            reason = reason or error
    raise ProbeError(
        "reference-error", f"no tiny twin of {type(config).__name__} computes: {reason}"
    ) from reason


def description(config, model, before):
    after = model.config.to_dict()
    changes = {
        key: [before[key], after.get(key)]
        for key in before
        if after.get(key) != before[key] and json_able(before[key]) and json_able(after.get(key))
    }
    return {
        "model_type": config.model_type,
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "layers": model.config.get_text_config().num_hidden_layers,
        "changes": changes,
    }


def json_able(value):
    try:
        json.dumps(value, allow_nan=False)
        return True
    except (TypeError, ValueError):
        return False
