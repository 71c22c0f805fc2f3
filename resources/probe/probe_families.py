# SPDX-License-Identifier: GPL-3.0-or-later
"""The built-in plan of each model family, read from models of it on the meta device. Used by tpscope_plans.py.

Source of what is read: transformers 5.24 DistributedMixin.init_parallel_plans. A model's plan is its class' _tp_plan,
then, where it is its own base model, its config's base_model_tp_plan and a default rule for embed_tokens, then the plans
of its direct sub-models, each behind the sub-model's name.
"""

import contextlib
import importlib
import math
import os
import re
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import auto_factory, modeling_auto

from probe_twin import HEAD_SIZE, HEADS, completed, rope_by_type

# What a config.json of such a model type is loaded as, the first that there is. A config of several parts is loaded as
# the whole.
GENERATING = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
OF_PARTS = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM")
OTHERS = ("MASKED_LM", "PRETRAINING")
REPAIRS = 8  # attributes
# What every published config of these has, the defaults lack, and no type or name tells.
NEEDED = {
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
        }
    },
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "1/2"},
    "perception_lm": {"vision_config": {"model_type": "timm_wrapper", "model_args": {"embed_dim": 16}}},
}


def read_all(events, only=None):
    """(facts of each family, what carries a plan and could not be built), by model type. only: these model types."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    found, failed = {}, {}
    kinds = config_classes()
    asked = sorted(kinds.keys() & set(only) if only else kinds)
    for number, kind in enumerate(asked):
        if number % 50 == 0:
            events("read", f"{number} of {len(asked)} model types", fraction=number / len(asked))
        config_class = kinds[kind]
        model_class = class_of(kind, config_class)
        if not (has_plan(config_class) or model_class and has_plan(model_class) or config_class.sub_configs):
            continue
        try:
            model = build(config_class, model_class)
        except Exception as error:  # noqa: BLE001: whatever a class' own code raises
            model = part_of_another(kind, kinds)
            if model is None:
                failed[kind] = failure(kind, config_class, model_class, error)
                continue
        if plan_of(model, "tp") or plan_of(model, "ep"):
            found[kind] = facts(kind, config_class, model)
    return list(found.values()), [entry for entry in failed.values() if entry]


def failure(kind, config_class, model_class, error):
    """None where nothing says that such a model has a plan."""
    if not (has_plan(config_class) or model_class and has_plan(model_class) or parts_with_plan(config_class)):
        return None
    message = f"{type(error).__name__}: {error}"
    return {"model_type": kind, "class": getattr(model_class, "__name__", None), "message": message}


def has_plan(cls):
    """Of a config class or a model class, inherited attributes included."""
    names = ("base_model_tp_plan", "base_model_ep_plan", "_tp_plan", "_ep_plan")
    return any(getattr(cls, name, None) for name in names)


def parts_with_plan(config_class):
    return any(has_plan(cls) for cls in classes_in(config_class))


def config_classes():
    """Each model type of the library with its config class, those of parts of models too."""
    kinds = {}
    root = os.path.dirname(transformers.models.__file__)
    for folder in sorted(os.listdir(root)):
        path = os.path.join(root, folder)
        for file in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            if not (file.startswith("configuration_") and file.endswith(".py")) or folder == "auto":
                continue
            try:
                module = importlib.import_module(f"transformers.models.{folder}.{file[:-3]}")
            except ImportError:  # of a package this Python lacks
                continue
            for cls in vars(module).values():
                if isinstance(cls, type) and issubclass(cls, PreTrainedConfig) and cls.__module__ == module.__name__:
                    kinds.setdefault(cls.model_type, cls)
    kinds.pop("", None)
    kinds.pop(None, None)
    for kind in kinds:
        if kind in CONFIG_MAPPING:
            kinds[kind] = CONFIG_MAPPING[kind]
    return kinds


def class_of(kind, config_class):
    """The model class that a config.json of this model type is loaded as; None: there is none."""
    tasks = (*(OF_PARTS if config_class.sub_configs else GENERATING), *OTHERS)
    for name in (*(f"MODEL_FOR_{task}_MAPPING_NAMES" for task in tasks), "MODEL_MAPPING_NAMES"):
        classes = getattr(modeling_auto, name, {}).get(kind, ())
        for candidate in (classes,) if isinstance(classes, str) else classes:
            with contextlib.suppress(ImportError, AttributeError):
                cls = getattr(transformers, candidate)
                has_plan(cls)  # raises where the class is a stand-in for a package this Python lacks
                return cls
    return class_beside(config_class)


def class_beside(config_class):
    """Of a part that no automatic class knows: the class written for its config, one with a head if there is."""
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    own = [
        cls
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, PreTrainedModel)
        and cls.__module__ == name
        and cls.config_class is config_class
        and "forward" in vars(cls)
    ]
    return max(own, key=lambda cls: "For" in cls.__name__, default=None)


def build(config_class, model_class):
    """A model with the config's default values; where those are incomplete, with the simplest that can be meant."""
    if model_class is None:
        raise LookupError(f"no model class takes {config_class.__name__}")
    first = None
    for changes in ((), (complete,), (complete, rope), (fill_by_type,), (complete, fill_by_type)):
        try:
            config = config_class(**NEEDED.get(config_class.model_type, {}))
            if changes:
                values = config.to_dict()
                for change in changes:
                    values = on_every_config(change, config, values)
                config = config_class.from_dict(values)
            return repaired(config, model_class)
        except Exception as error:  # noqa: BLE001: whatever a class' own code raises
            first = first or error
    raise first


def repaired(config, model_class):
    """Attributes that only published configs have get a value: sizes do not matter on the meta device."""
    for _ in range(REPAIRS):
        try:
            return instance(config, model_class)
        except AttributeError as error:
            missing = re.search(r"'(\w+)' object has no attribute '(\w+)'", str(error))
            owners = [part for part in configs_in(config) if missing and type(part).__name__ == missing[1]]
            if not owners:
                raise
            for part in owners:
                setattr(part, missing[2], 16 if re.search("size|num|dim|heads|rank", missing[2]) else 0.0)
    return instance(config, model_class)


def configs_in(config):
    yield config
    for name in config.sub_configs:
        if isinstance(part := getattr(config, name, None), PreTrainedConfig):
            yield from configs_in(part)


def instance(config, model_class):
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        no_init_weights = contextlib.nullcontext
    with torch.device("meta"), no_init_weights(), without_absent_packages():
        return model_class._from_config(config)


def tower(model_class):
    class Tower:
        @classmethod
        def _from_config(cls, config, **kwargs):
            try:
                return model_class._from_config(config, **kwargs)
            except ImportError:
                return torch.nn.Module()

    return Tower


@contextlib.contextmanager
def without_absent_packages():
    """A sub-model whose package this Python lacks is left empty: such towers have no plan."""
    original = auto_factory._get_model_class

    def get_model_class(config, mapping):
        found = original(config, mapping)
        return found if has_plan(type(config)) else tower(found)

    auto_factory._get_model_class = get_model_class
    try:
        yield
    finally:
        auto_factory._get_model_class = original


def on_every_config(change, config, values):
    """change(config, values), of the config and of each config inside it."""
    out = dict(values)
    for name in config.sub_configs:
        part = getattr(config, name, None)
        if isinstance(part, PreTrainedConfig) and isinstance(values.get(name), dict):
            out[name] = on_every_config(change, part, values[name])
    return change(config, out)


def complete(config, values):
    with contextlib.suppress(KeyError, TypeError):
        values = completed(values)
    width, heads = values.get("hidden_size"), values.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and heads and width % heads and not values.get("head_dim"):
        values = values | {"num_attention_heads": math.gcd(width, heads)}
    return values


def rope(config, values):
    return rope_by_type(values)


def fill_by_type(config, values):
    """Whatever is still empty, by its declared type alone."""
    out = dict(values)
    for name in [name for name, value in values.items() if value is None]:
        declared = str(getattr(type(config), "__annotations__", {}).get(name, ""))
        if name.endswith("layer_types"):
            out[name] = ["sparse"] * values["num_hidden_layers"]
        elif name.endswith("_id"):
            continue
        elif re.search(r"\blist\b", declared):
            out[name] = []
        elif re.search(r"\bdict\b", declared):
            out[name] = {}
        elif re.search(r"\bint\b", declared):
            size = values.get("head_dim") or 16 if HEAD_SIZE.search(name) else 16
            out[name] = 1 if HEADS.search(name) else size
    return out


def part_of_another(kind, kinds):
    """What cannot stand alone may be a part of a model that can: there it has the same plan."""
    config_class = kinds[kind]
    for whole, whole_class in sorted(kinds.items()):
        if whole == kind or config_class not in classes_in(whole_class):
            continue
        with contextlib.suppress(Exception):
            for module in build(whole_class, class_of(whole, whole_class)).modules():
                if isinstance(module, PreTrainedModel) and type(module.config) is config_class:
                    return module
    return None


def classes_in(config_class):
    """The classes of all configs inside such a config."""
    for cls in config_class.sub_configs.values():
        if isinstance(cls, type) and issubclass(cls, PreTrainedConfig):
            yield cls
            yield from classes_in(cls)


def plan_of(model, part):
    return getattr(model, f"_{part}_plan", None) or {}


def facts(kind, config_class, model):
    """What the catalogue keeps of a family. Rules are [[key, style], ...] in the library's order.
    class: of the model the plan was read from; base_model_prefix: "" where the model is its own base model;
    class_tp_plan, base_model_tp_plan, base_model_ep_plan: what the library calls _tp_plan of the class and so on;
    sub_model_tp_plan, sub_model_ep_plan: what other sub-models add, full names;
    sub_models: {name: model type} of those;
    sub_model_configs: {name: "text_config"} of those whose model type a config.json chooses, and where;
    default_embedding: whether the base model adds the rule for embed_tokens;
    sources: the files that hold it, from the package's folder on."""
    base = model.base_model
    prefix = next(name for name, module in model.named_modules() if module is base)
    owner = base if base.base_model is base else None  # whose config's plan counts
    out = {"model_type": kind, "class": type(model).__name__, "base_model_prefix": prefix}
    out |= {"config_class": config_class.__name__, "sources": sources(config_class, model)}
    rules = {}
    for part in ("tp", "ep"):
        own = dict(plan_of(type(model), part))
        config = dict(getattr(owner.config, f"base_model_{part}_plan", None) or {}) if owner else {}
        rest = {key: style for key, style in plan_of(model, part).items() if key not in own}
        for key in config:
            rest.pop(joined(prefix, key), None)
        rules[f"class_{part}_plan"] = own
        rules[f"base_model_{part}_plan"] = config
        rules[f"sub_model_{part}_plan"] = rest
    # A class with rules for experts is none yet; full names are full names.
    rules["sub_model_ep_plan"] = rules.pop("class_ep_plan") | rules["sub_model_ep_plan"]
    embedding = joined(prefix, "embed_tokens")
    default = bool(rules["base_model_tp_plan"]) and embedding in rules["sub_model_tp_plan"]
    if default:
        del rules["sub_model_tp_plan"][embedding]
    out |= {name: [list(rule) for rule in plan.items()] for name, plan in rules.items()}
    named = "embed_tokens" in rules["base_model_tp_plan"] or embedding in rules["class_tp_plan"]
    out["default_embedding"] = default or named
    parts = sub_models(model, base)
    out["sub_models"] = {name: part.config.model_type for name, part in parts.items()}
    chosen = dict(chosen_configs(model.config))
    places = {name: place_of(part.config, chosen) for name, part in parts.items()}
    out["sub_model_configs"] = {name: place for name, place in places.items() if place}
    return out


def joined(prefix, key):
    return f"{prefix}.{key}" if prefix else key


def sources(config_class, model):
    """The files of the config class and of the model class."""
    modules = (config_class.__module__, type(model).__module__)
    return [name.split(".", 1)[1].replace(".", "/") + ".py" for name in modules]


def sub_models(model, base):
    """Each sub-model, other than the base model, whose config has a plan, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, PreTrainedModel)
        and module is not base
        and module is not model
        and module.base_model is module
        and has_plan(type(module.config))
    }


def place_of(config, chosen):
    """Where it stands among the chosen ones: itself, else, since classes copy configs, the only one of its class."""
    same = [place for place, part in chosen.items() if part is config]
    alike = [place for place, part in chosen.items() if type(part) is type(config)]
    return same[0] if same else alike[0] if len(alike) == 1 else None


def chosen_configs(config, prefix=""):
    """(dotted key, config) of each config inside this one whose class the file's model_type chooses."""
    for name, cls in config.sub_configs.items():
        part = getattr(config, name, None)
        if isinstance(part, PreTrainedConfig):
            if cls is AutoConfig:
                yield joined(prefix, name), part
            yield from chosen_configs(part, joined(prefix, name))
