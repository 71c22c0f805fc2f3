// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/repro.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tpscope {
namespace {

constexpr std::string_view script = R"PY(# A tensor-parallel plan against one process: logits, gradients, graph breaks.
#   torchrun --nproc-per-node @RANKS@ @FILE@ [MODEL FOLDER]
# Without a folder: the config below, with at most 2 layers, and random weights. Needs torch and transformers only.
import json
import os
import shutil
import sys
import tempfile

import torch
import torch._dynamo as dynamo
import torch.distributed as dist
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.distributed import DistributedConfig

CONFIG = json.loads(r'''@CONFIG@''')
DISTRIBUTED = json.loads(r'''@PLAN@''')  # fields of DistributedConfig
IDS = torch.tensor([[(17 + 29 * i) % @VOCAB@ for i in range(12)]])


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def model_folder():
    """One folder for all ranks; the second value: to be removed."""
    if len(sys.argv) > 1:
        return sys.argv[1], False
    folder = [tempfile.mkdtemp(prefix="repro-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    if dist.get_rank() == 0:
        torch.manual_seed(0)
        with open(os.path.join(folder[0], "config.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        config = AutoConfig.from_pretrained(folder[0])
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder[0])
    dist.barrier()
    return folder[0], True


def backward(model):
    model.train()
    model(input_ids=IDS, labels=IDS, use_cache=False).loss.backward()


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def compare(folder):
    single = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, distributed_config=DistributedConfig(**DISTRIBUTED)
    ).eval()
    with torch.no_grad():
        expected, found = (m(input_ids=IDS, use_cache=False).logits for m in (single, model))
    if expected.shape == found.shape:
        say(f"logits: largest difference {(expected - found).abs().max():.3g} of {expected.abs().max():.3g}")
    else:
        say(f"logits: shape {list(found.shape)}, one process gives {list(expected.shape)}")
    with torch.no_grad():
        dynamo.reset()
        explained = dynamo.explain(model)(input_ids=IDS, use_cache=False)
    say(f"torch.compile: {explained.graph_count} graphs, {explained.graph_break_count} breaks")
    for reason in sorted({str(r.reason).splitlines()[0] for r in explained.break_reasons}):
        say("  break:", reason)
    dynamo.reset()
    backward(single)
    backward(model)
    wrong = 0
    truth = dict(single.named_parameters())
    for name, parameter in model.named_parameters():
        true = truth[name].grad
        own = None if parameter.grad is None else whole(parameter.grad)
        if true is None or own is None:
            continue
        if own.shape != true.shape:
            say(f"gradient of {name}: shape {list(own.shape)}, one process gives {list(true.shape)}")
            wrong += 1
        elif (own - true).norm() > 1e-3 * true.norm():
            say(f"gradient of {name}: {(own * true).sum() / (true * true).sum():.4f} times one process'")
            wrong += 1
    say(f"gradients: {wrong} wrong of {len(truth)}")


def main():
    dist.init_process_group("gloo")
    say(f"torch {torch.__version__}, transformers {transformers.__version__}, {dist.get_world_size()} ranks")
    folder, ours = model_folder()
    try:
        compare(folder)
        dist.barrier()
    finally:
        if ours and dist.get_rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


main()
)PY";

void replace(std::string &text, std::string_view placeholder, std::string_view value) {
    for (std::size_t at = text.find(placeholder); at != std::string::npos;
         at = text.find(placeholder, at + value.size()))
        text.replace(at, placeholder.size(), value);
}

// In a raw literal of three quotes; a quote in JSON's text is written as an escape that JSON knows.
std::string literal(const nlohmann::json &json, int indent) {
    std::string text = json.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
    replace(text, "'", "\\u0027");
    return text;
}

// The config with few layers: lists with an entry a layer are cut, and files it was quantised with do not matter.
nlohmann::json shortened(nlohmann::json config) {
    constexpr std::int64_t most = 2;
    const auto found = config.find("num_hidden_layers");
    if (found == config.end() || !found->is_number_integer() || found->get<std::int64_t>() <= most)
        return config;
    const auto layers = found->get<std::size_t>();
    for (auto &[key, value] : config.items())
        if (value.is_array() && value.size() == layers)
            value.erase(value.begin() + most, value.end());
    config["num_hidden_layers"] = most;
    config.erase("quantization_config");
    return config;
}

} // namespace

std::string toRepro(const ModelDescription &model, const PlanToWrite &plan, const std::string &fileName) {
    std::string out(script);
    replace(out, "@RANKS@", std::to_string(plan.tpSize));
    replace(out, "@FILE@", fileName);
    replace(out, "@VOCAB@", std::to_string(std::max<std::int64_t>(1, model.dims.vocab)));
    replace(out, "@PLAN@", literal(nlohmann::json::parse(toJson(plan)), 1));
    replace(out, "@CONFIG@", literal(shortened(model.config.json()), 1));
    return out;
}

} // namespace tpscope
