// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/planwriter.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "plan/yamlsource.h"

namespace tpscope {
namespace {

using Json = nlohmann::ordered_json;

// Rules as a dict keeps them: of one key the first place and the last style.
std::vector<PlanRule> asDict(const std::vector<PlanRule> &rules) {
    std::vector<PlanRule> out;
    std::unordered_map<std::string, std::size_t> index;
    for (const PlanRule &rule : rules) {
        const auto [found, inserted] = index.try_emplace(rule.key, out.size());
        if (inserted)
            out.push_back(rule);
        else
            out[found->second] = rule;
    }
    return out;
}

std::string yamlRules(const std::string &name, const std::vector<PlanRule> &rules) {
    if (rules.empty())
        return name + ": {}\n";
    std::string out = name + ":\n";
    for (const PlanRule &rule : rules)
        out += "  " + (rule.keyIsText ? scalarText(rule.key, Quote::Plain) : rule.key) + ": " +
               (rule.styleIsText ? scalarText(rule.style, Quote::Plain) : rule.style) + "\n";
    return out;
}

// A value that is no text keeps its type where JSON has it.
Json jsonStyle(const PlanRule &rule) {
    if (rule.styleIsText)
        return rule.style;
    Json value = Json::parse(rule.style, nullptr, false);
    return value.is_discarded() ? Json(rule.style) : value;
}

Json jsonRules(const std::vector<PlanRule> &rules) {
    Json out = Json::object();
    // Keys are unique here; operator[] would look for each among all before it.
    for (const PlanRule &rule : asDict(rules))
        out.get_ref<Json::object_t &>().emplace_back(rule.key, jsonStyle(rule));
    return out;
}

std::string pythonText(const std::string &text) {
    // JSON's string escapes are Python's, but for the escaped solidus, which dump() does not write.
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string pythonValue(const Json &value) {
    if (value.is_string())
        return pythonText(value.get<std::string>());
    if (value.is_null())
        return "None";
    if (value.is_boolean())
        return value.get<bool>() ? "True" : "False";
    if (value.is_number())
        return value.dump();
    std::string out;
    for (const auto &[key, element] : value.items())
        out += (out.empty() ? "" : ", ") + (value.is_object() ? pythonText(key) + ": " : "") + pythonValue(element);
    return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string pythonRules(const std::string &name, const std::vector<PlanRule> &rules) {
    if (rules.empty())
        return name + " = {}\n";
    std::string out = name + " = {\n";
    for (const PlanRule &rule : rules)
        out += "    " + pythonText(rule.key) + ": " + pythonValue(jsonStyle(rule)) + ",\n";
    return out + "}\n";
}

// Upstream always merges over the built-in plan: what must not apply is cancelled, and a bare parameter takes the style
// of the module rule that would reach it otherwise.
std::vector<PlanRule> cancelsOf(const ResolvedPlan &plan) {
    std::unordered_map<std::string, std::string> reached; // parameter's own generic name -> style of its module's rule
    for (const EffectiveRule &rule : plan.rules)
        for (const std::string &parameter : rule.expert ? std::vector<std::string>() : rule.parameters)
            reached.emplace(genericName(parameter), rule.rule.style);
    std::vector<PlanRule> cancels;
    for (PlanRule rule : plan.leftOut) {
        const auto found = reached.find(rule.key);
        rule.style = found == reached.end() ? "replicate" : found->second;
        rule.styleIsText = true;
        cancels.push_back(std::move(rule));
    }
    return cancels;
}

std::vector<PlanRule> withCancels(const PlanToWrite &plan) {
    std::vector<PlanRule> rules = plan.rules;
    // No rule at all is {}, which upstream refuses as it should; cancels would make a plan of it.
    if (!plan.baseBuiltin && !rules.empty())
        rules.insert(rules.end(), plan.cancels.begin(), plan.cancels.end());
    return asDict(rules);
}

} // namespace

PlanToWrite ownRules(const ModelDescription &model, const PlanChoice &choice, const ResolvedPlan &plan) {
    PlanToWrite out;
    out.modelType = model.modelType;
    out.tpSize = plan.tp;
    out.epSize = plan.ep;
    out.baseBuiltin = plan.baseMode != "none";
    out.cancels = cancelsOf(plan);
    if (choice.document) {
        out.rules = asDict(choice.document->rules);
        out.epRules = asDict(choice.document->epRules);
    }
    out.automatic = out.baseBuiltin && out.rules.empty() && !plan.emptyMapping;
    return out;
}

PlanToWrite effectiveRules(const ModelDescription &model, const ResolvedPlan &plan) {
    PlanToWrite out;
    out.modelType = model.modelType;
    out.tpSize = plan.tp;
    out.epSize = plan.ep;
    out.baseBuiltin = plan.baseMode != "none";
    out.cancels = cancelsOf(plan);
    for (const EffectiveRule &rule : plan.rules)
        if (!rule.expert)
            out.rules.push_back(rule.rule);
    out.epRules = plan.epRules;
    return out;
}

std::string toYaml(const PlanToWrite &plan) {
    std::string out;
    if (!plan.modelType.empty())
        out += "model_type: " + scalarText(plan.modelType, Quote::Plain) + "\n";
    out += "tp_size: " + std::to_string(plan.tpSize) + "\n";
    if (plan.epSize > 1)
        out += "ep_size: " + std::to_string(plan.epSize) + "\n";
    if (!plan.baseBuiltin)
        out += "base: none\n";
    out += plan.automatic ? "tp_plan: auto\n" : yamlRules("tp_plan", asDict(plan.rules));
    if (!plan.epRules.empty())
        out += yamlRules("ep_plan", asDict(plan.epRules));
    return out;
}

std::string toJson(const PlanToWrite &plan) {
    Json out;
    out["tp_size"] = plan.tpSize;
    if (plan.epSize > 1)
        out["ep_size"] = plan.epSize;
    out["tp_plan"] = plan.automatic ? Json("auto") : jsonRules(withCancels(plan));
    if (!plan.epRules.empty())
        out["ep_plan"] = jsonRules(plan.epRules);
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string toPython(const PlanToWrite &plan, const PythonOptions &options) {
    const std::string size = std::to_string(plan.tpSize);
    const std::string start = plan.tpSize > 1 ? "torchrun --nproc-per-node " + size : std::string("python");
    std::string out = "# A model with its tensor-parallel plan on " + size + (plan.tpSize > 1 ? " ranks" : " rank") +
                      ", for transformers 5.24:\n#   " + start + " " + options.fileName + " [MODEL]\n" +
                      "import sys\n\nimport torch\nfrom transformers import AutoModelForCausalLM\n"
                      "from transformers.distributed import DistributedConfig\n\n";
    std::string arguments = plan.automatic ? "tp_plan=\"auto\"" : "tp_plan=tp_plan";
    if (!plan.automatic)
        out += pythonRules("tp_plan", withCancels(plan));
    if (!plan.epRules.empty()) {
        out += pythonRules("ep_plan", plan.epRules);
        arguments += ", ep_plan=ep_plan";
    }
    if (plan.epSize > 1)
        arguments += ", ep_size=" + std::to_string(plan.epSize);
    out += "model = AutoModelForCausalLM.from_pretrained(\n    sys.argv[1] if len(sys.argv) > 1 else " +
           pythonText(options.model) + ",\n    distributed_config=DistributedConfig(" + arguments + ", tp_size=" +
           size + "),\n)\n";
    out += "input_ids = torch.tensor([[1, 2, 3, 4]], device=model.device)\n"
           "output_ids = model.generate(input_ids, max_new_tokens=8, do_sample=False)\n";
    if (plan.tpSize == 1)
        return out + "print(output_ids.tolist())\n";
    return out + "if torch.distributed.get_rank() == 0:\n    print(output_ids.tolist())\n"
                 "torch.distributed.destroy_process_group()\n";
}

} // namespace tpscope
