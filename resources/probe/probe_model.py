# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads the model with its plan and hook mode. Used by tpscope_probe.py."""

import contextlib
import datetime
import inspect
import json
import logging
import os
import platform
import shutil
import tempfile

import torch
import torch.distributed as dist
import transformers

from probe_batch import Batch
from probe_error import ProbeError

STYLE = "replicated_with_grad_allreduce"


def set_up(request):
    """Threads, process group, environment; returns what a reader must know to judge the numbers."""
    transformers.utils.logging.disable_progress_bar()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    simulated = request["process_group"] == "fake"
    torch.set_num_threads(
        request["threads"] or max(1, cores // (1 if simulated else request["tp"]))
    )
    torch._dynamo.config.recompile_limit = request["recompile_limit"]
    if request["tp"] > 1 and simulated:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(request["tp"])}
        dist.init_process_group("fake", rank=0, world_size=request["tp"], store=FakeStore())
    elif request["tp"] > 1:
        # One host: the loopback interface is always there, whatever the machine's name resolves to.
        if platform.system() == "Linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = {}
        if "MASTER_ADDR" not in os.environ:  # forked ranks
            rendezvous = os.path.abspath(request["result"]) + ".rendezvous"
            meeting = {"init_method": f"file://{rendezvous}", "world_size": request["tp"]}
            meeting["rank"] = int(os.environ["RANK"])
        dist.init_process_group(
            "gloo", timeout=datetime.timedelta(seconds=request["timeout_seconds"]), **meeting
        )
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": cores,
        "threads": torch.get_num_threads(),
        "process_group": request["process_group"] if request["tp"] > 1 else "none",
        "tp": request["tp"],
        "dtype": request["dtype"],
        "seed": request["seed"],
        "recompile_limit": request["recompile_limit"],
        "execution": request["execution"],
        "compile_backend": request["compile_backend"]
        if request["execution"] == "compile"
        else None,
    }


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def leave():
    """The last common point of all ranks: afterwards no one waits for anyone."""
    if dist.is_initialized():
        dist.barrier()


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        text = record.getMessage()
        if text not in self.lines and len(self.lines) < 50:
            self.lines.append(text)


class Hooks:
    """Puts the wanted gradient-sync hooks on the modules of style replicated_with_grad_allreduce.

    What the installed version does itself is used as it is ("native"). Any other mode is emulated
    by replacing ReplicatedWithGradAllReduce.install_forward, which the library calls before it
    loads the weights.
    """

    def __init__(self, mode):
        self.mode = mode
        self.modules = []
        self.warnings = []
        self.native_mode = None
        self.emulated = False
        self.on_reduction = lambda parameter: None  # called by emulations that keep no gradient

    def install(self):
        try:
            from transformers.distributed.tensor_parallel import (
                ReplicatedWithGradAllReduce as style,
            )
        except ImportError as error:
            version = transformers.__version__
            raise ProbeError(
                "environment", f"transformers {version} has no style {STYLE}: 5.20 or newer needed"
            ) from error
        native = style.install_forward
        source = inspect.getsource(native)
        self.native_mode = (
            "module-backward"
            if "register_full_backward_hook" in source
            else "post-accumulate-grad"
            if "register_post_accumulate_grad_hook" in source
            else "unknown"
        )
        if self.mode == "native":
            self.mode = self.native_mode
        self.emulated = self.mode != self.native_mode
        emulation = {
            "none": no_hook,
            "module-backward": module_backward,
            "tensor-grad": no_hook,
            "post-accumulate-grad": post_accumulate_grad,
        }.get(self.mode)
        chosen = emulation if self.emulated else native

        def install_forward(style_object, module, mesh):
            self.modules.append((module, mesh))
            return chosen(style_object, module, mesh)

        style.install_forward = install_forward

    def after_load(self):
        if self.mode == "tensor-grad":
            for module, mesh in self.modules:
                tensor_grad(module, mesh, self)

    def registered(self, model):
        """How many hooks of each kind exist at this moment on this rank."""
        parameters = list(model.parameters())
        return {
            "module_backward": sum(len(module._backward_hooks) for module in model.modules()),
            "post_accumulate_grad": sum(
                len(getattr(p, "_post_accumulate_grad_hooks", None) or {}) for p in parameters
            ),
            "tensor_grad": sum(len(getattr(p, "_backward_hooks", None) or {}) for p in parameters),
        }

    def description(self):
        version = transformers.__version__
        like = {
            "module-backward": "transformers <= 5.21",
            "post-accumulate-grad": "transformers 5.22 to 5.24",
            "tensor-grad": "no released version",
            "none": "no released version",
        }.get(self.mode)
        how = (
            f"emulated on transformers {version}, as {like} does"
            if self.emulated
            else f"native to transformers {version}"
        )
        return {
            "mode": self.mode,
            "native_mode": self.native_mode,
            "emulated": self.emulated,
            "how": how,
            "modules": len(self.modules),
        }


def no_hook(style, module, mesh):
    return module


def module_backward(style, module, mesh):
    """What transformers 5.21.1 does: a module hook, since parameters are replaced when the weights
    are loaded."""

    def _all_reduce_grads(mod, grad_input, grad_output):
        for param in mod.parameters(recurse=False):
            if param.grad is not None:
                dist.all_reduce(param.grad, group=mesh.get_group())

    module.register_full_backward_hook(_all_reduce_grads)
    return module


def post_accumulate_grad(style, module, mesh):
    """What transformers 5.24.0 does: hooks the loaded parameters in the first forward with
    gradients."""
    original_forward = module.forward
    is_already_hooked = {}

    def _all_reduce_grad(param):
        dist.all_reduce(param.grad, group=mesh.get_group())

    def tp_forward(*args, **kwargs):
        if torch.is_grad_enabled():
            for name, param in module.named_parameters(recurse=False):
                if param.requires_grad and is_already_hooked.get(name) is not param:
                    param.register_post_accumulate_grad_hook(_all_reduce_grad)
                    is_already_hooked[name] = param
        return original_forward(*args, **kwargs)

    module.forward = tp_forward
    return module


def tensor_grad(module, mesh, hooks):
    """Reduces what each backward contributes, before it is accumulated; put on the loaded
    parameters."""

    def hook_of(param):
        def _all_reduce(grad):
            grad = grad.clone()
            dist.all_reduce(grad, group=mesh.get_group())
            hooks.on_reduction(param)
            return grad

        return _all_reduce

    for param in module.parameters(recurse=False):
        if param.requires_grad:
            param.register_hook(hook_of(param))


def load(request, rank, events):
    with model_folder(request, rank, events) as folder:
        return load_plan(folder, request, events)


@contextlib.contextmanager
def model_folder(request, rank, events):
    """The folder with weights; one with random weights is removed when all ranks have read it."""
    folder, scratch = request["model"], None
    if request["weights"] == "random" or not has_weights(folder):
        events("load", f"random weights, seed {request['seed']}")
        scratch = folder = random_model(request, rank)
    try:
        yield folder
    finally:
        if scratch and dist.is_initialized() and request["process_group"] == "gloo":
            wait_for_others()
        if scratch and rank == 0:
            shutil.rmtree(scratch, ignore_errors=True)


def load_plan(folder, request, events):
    """The model under the request's plan, and its hooks."""
    hooks = Hooks(request["hooks"])
    handler = Warnings()
    logging.getLogger("transformers").addHandler(handler)
    hooks.warnings = handler.lines
    hooks.install()
    model = from_pretrained(folder, request)
    hooks.after_load()
    model.eval()
    events(
        "load", f"{type(model).__name__}, {sum(p.numel() for p in model.parameters())} parameters"
    )
    return model, hooks


def wait_for_others():
    try:
        dist.barrier()
    except RuntimeError:
        pass  # a rank that failed to load is reported by itself


def has_weights(path):
    return os.path.isdir(path) and any(name.endswith(".safetensors") for name in os.listdir(path))


def random_model(request, rank):
    """Rank 0 writes one model that all ranks load, so that every tp size sees the same weights."""
    folder = (
        [
            tempfile.mkdtemp(
                prefix="weights-", dir=os.path.dirname(os.path.abspath(request["result"]))
            )
        ]
        if rank == 0
        else [None]
    )
    if rank == 0:
        config = read_config(request["model"])
        with torch.device("meta"):
            numbers = sum(
                p.numel()
                for p in transformers.AutoModelForCausalLM.from_config(config).parameters()
            )
        size = numbers * torch.finfo(getattr(torch, request["dtype"])).bits // 8
        free = shutil.disk_usage(folder[0]).free
        if size > free:
            raise ProbeError(
                "load-error",
                f"random weights of {size >> 20} MiB do not fit: "
                f"{free >> 20} MiB are free in {folder[0]}",
            )
        torch.manual_seed(request["seed"])
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, request["dtype"])
        )
        model.save_pretrained(folder[0])
    if dist.is_initialized() and request["process_group"] == "gloo":
        dist.broadcast_object_list(folder, src=0)
    return folder[0]


def read_config(path):
    try:
        return transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ProbeError("load-error", f"{path}: {error}") from error


def from_pretrained(folder, request):
    config = read_config(folder)
    arguments = {"dtype": getattr(torch, request["dtype"]), "trust_remote_code": False}
    if request["attention"]:
        arguments["attn_implementation"] = request["attention"]
    if request["tp"] > 1:
        from transformers.distributed import DistributedConfig

        if request["plan_base"] == "none":
            cancel_own_plan(config)
        try:
            arguments["distributed_config"] = DistributedConfig(
                tp_plan=request["plan"], tp_size=request["tp"], **expert_parallel(request)
            )
        except Exception as error:
            raise ProbeError("rejected", str(error)) from error
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(folder, config=config, **arguments)
    except (OSError, json.JSONDecodeError) as error:
        raise ProbeError("load-error", str(error)) from error
    except Exception as error:
        if type(error).__name__ == "SafetensorError":
            raise ProbeError("load-error", str(error)) from error
        raise ProbeError("rejected", str(error)) from error


def expert_parallel(request):
    """Arguments that older versions of transformers lack are given only where they are needed."""
    arguments = {"ep_size": request["ep"]} if request["ep"] > 1 else {}
    return arguments | ({} if request["ep_plan"] is None else {"ep_plan": request["ep_plan"]})


def cancel_own_plan(config):
    """Leaves the given rules as the whole plan: neither config's nor class' rules, no default
    embedding rule."""
    config.base_model_tp_plan = {}
    transformers.AutoModelForCausalLM._model_mapping[type(config)]._tp_plan = {}


def first_forward(model, request):
    """One eager forward without gradients: the verdict forward-error is decided here."""
    try:
        with torch.no_grad():
            batch = Batch(request["input_ids"])
            model(input_ids=batch.ids, use_cache=False, **batch.inputs())
    except Exception as error:
        raise ProbeError("forward-error", str(error)) from error


def module_of(error, model):
    """The innermost module that a raised error passed through; None: none of the model's."""
    names = {id(module): name for name, module in model.named_modules()}
    found, trace = None, error.__traceback__
    while trace is not None:
        for local in ("self", "module"):
            name = names.get(id(trace.tb_frame.f_locals.get(local)))
            found = name if name else found
        trace = trace.tb_next
    return found


def cache_argument(model):
    """transformers 5.24 calls it cache, earlier versions past_key_values."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def static_cache(model, length):
    return transformers.StaticCache(config=model.config, max_cache_len=length)
