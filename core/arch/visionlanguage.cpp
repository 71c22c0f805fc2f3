// SPDX-License-Identifier: GPL-3.0-or-later
// Where vision-language models keep their text backbone: transformers 5.24, each class of
// MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING built from its default config. One rule, model.language_model beside lm_head, and the
// few that differ.
#include "arch/visionlanguage.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope {
namespace {

using nlohmann::json;

struct Row {
    std::string_view modelType;
    std::string_view textType;  // of a text_config that names none
    bool tied;                  // of a config without tie_word_embeddings
    std::string_view text = "language_model"; // below model
    bool ownHead = false;       // the backbone is a causal model with its own lm_head, beside the vision tower
    std::string_view defaults = {}; // of the text_config's keys, where files leave them out
};

constexpr std::string_view gemma3Text =
    R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072})";
constexpr std::string_view mistralText =
    R"({"vocab_size": 131072, "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05, "sliding_window": null})";
constexpr std::string_view llamaText =
    R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32})";

constexpr std::array rows{
    Row{"aya_vision", "cohere2", true},
    Row{"cohere2_vision", "cohere2", true},
    Row{"deepseek_vl", "llama", true, "language_model", false, llamaText},
    Row{"deepseek_vl_hybrid", "llama", true, "language_model", false, llamaText},
    Row{"exaone4_5", "exaone4", false},
    Row{"gemma3", "gemma3_text", true, "language_model", false, gemma3Text},
    Row{"got_ocr2", "qwen2", true},
    Row{"idefics2", "mistral", false, "text_model"},
    Row{"idefics3", "llama", false, "text_model", false, llamaText},
    Row{"internvl", "qwen2", true},
    Row{"janus", "llama", true, "language_model", false, llamaText},
    Row{"kimi_k25", "deepseek_v3", true},
    Row{"lighton_ocr", "qwen3", true},
    Row{"llama4", "llama4_text", false, "language_model", true},
    Row{"llava", "llama", false, "language_model", false, llamaText},
    Row{"llava_next", "llama", false, "language_model", false, llamaText},
    Row{"llava_next_video", "llama", false, "language_model", false, llamaText},
    Row{"llava_onevision", "qwen2", false},
    Row{"minicpm_ocr", "qwen3_5_text", true},
    Row{"minicpmv4_6", "qwen3_5_text", false},
    Row{"minicpmv4_7", "qwen3_5_text", false},
    Row{"mistral3", "mistral", true, "language_model", false, mistralText},
    Row{"ovis2", "qwen2", true},
    Row{"qianfan_ocr", "qwen3", false},
    Row{"qwen3_5", "qwen3_5_text", false},
    Row{"shieldgemma2", "gemma3_text", true, "language_model", false, gemma3Text},
    Row{"smolvlm", "llama", false, "text_model", false, llamaText},
    Row{"video_llama_3", "qwen2", false},
    Row{"video_llava", "llama", false, "language_model", false, llamaText},
    Row{"vipllava", "llama", false, "language_model", false, llamaText},
};

// A model type without a row is taken to follow the rule.
Row rowOf(const std::string &modelType) {
    const auto found = std::ranges::find(rows, modelType, &Row::modelType);
    return found == rows.end() ? Row{modelType, {}, false} : *found;
}

const json *textConfig(const ModelConfig &config) {
    const auto found = config.json().find("text_config");
    return found != config.json().end() && found->is_object() ? &*found : nullptr;
}

std::string textType(const ModelConfig &config, const Row &row) {
    const json *text = textConfig(config);
    if (!text)
        return {};
    const auto type = text->find("model_type");
    return type != text->end() && type->is_string() ? type->get<std::string>() : std::string(row.textType);
}

Result<ModelDescription> describeText(const ModelConfig &config, const Row &row, const Upstream &upstream) {
    json text = row.defaults.empty() || textType(config, row) != row.textType ? json::object() : json::parse(row.defaults);
    text.update(*textConfig(config));
    text["model_type"] = textType(config, row);
    text["tie_word_embeddings"] = config.has("tie_word_embeddings") ? config.json().at("tie_word_embeddings") : json(row.tied);
    if (!text.contains("dtype") && !text.contains("torch_dtype"))
        for (const char *key : {"dtype", "torch_dtype"})
            if (config.has(key))
                text["dtype"] = config.json().at(key);
    const auto parsed = ModelConfig::parse(text.dump(), config.fileName() + ", text_config");
    if (!parsed)
        return tl::unexpected(parsed.error());
    return findFamily(parsed->modelType())->describe(*parsed, upstream);
}

// "Mistral3ForConditionalGeneration" of the file's architectures; else the text family's class.
std::string classOf(const ModelConfig &config, const std::string &fallback) {
    const auto found = config.json().find("architectures");
    const bool named = found != config.json().end() && found->is_array() && !found->empty() && found->front().is_string();
    return named ? found->front().get<std::string>() : fallback;
}

// A text model's description, put below the modules of a vision-language class.
class Wrapping {
public:
    Wrapping(ModelDescription text, const ModelConfig &config, const Row &row, const Upstream &upstream)
        : m_text(std::move(text)), m_row(row) {
        m_b.upstream = upstream;
        m_b.model = m_text;
        m_b.model.tree = {};
        m_b.model.config = config;
        m_b.model.modelType = config.modelType();
        m_b.model.className = classOf(config, m_text.className);
        constexpr std::string_view generation = "ForConditionalGeneration";
        m_b.prefix = m_b.model.className;
        if (m_b.prefix.ends_with(generation))
            m_b.prefix.resize(m_b.prefix.size() - generation.size());
        m_outer = m_b.model.className + ".model.forward";
        m_b.pythonFile = "modeling_" + config.modelType() + ".py";
        m_b.model.baseModelPrefix = row.ownHead ? "" : "model";
    }

    ModelDescription wrapped() && {
        addModules();
        takeEmbeddings();
        addPrograms();
        return std::move(m_b.model);
    }

private:
    std::string renamed(const std::string &name) const {
        const std::string text(m_row.text);
        if (m_row.ownHead)
            return name.empty() ? text : text + "." + name;
        return name == "model" || name.starts_with("model.") ? "model." + text + name.substr(5) : name;
    }

    void addModules() {
        ModuleTree &tree = m_b.model.tree;
        const auto place = [&](const std::string &className, std::optional<ModuleIndex> parent, const std::string &name) {
            const ModuleIndex index = tree.add(parent, name, className);
            m_b.at(index).returnsTuple = m_b.at(index).calledWithKeywords = true;
            return index;
        };
        const ModuleIndex root = place(m_b.model.className, std::nullopt, "");
        if (!m_row.ownHead)
            place(m_b.prefix + "Model", root, "model");
        for (const Module &old : m_text.tree.modules) {
            if (old.name.empty() && !m_row.ownHead) {
                m_b.at(root).attributes = old.attributes; // what scales or caps the logits
                continue;
            }
            const std::string name = renamed(old.name);
            const std::size_t dot = name.rfind('.');
            const auto parent = tree.indexOf(dot == std::string::npos ? "" : name.substr(0, dot));
            const ModuleIndex index = tree.add(parent, name.substr(dot == std::string::npos ? 0 : dot + 1), old.className);
            Module &module = m_b.at(index);
            const auto parentIndex = module.parent;
            const std::string localName = module.localName;
            module = old;
            module.name = name;
            module.localName = localName;
            module.parent = parentIndex;
            module.children.clear();
            for (Parameter &parameter : module.parameters) {
                for (std::string &stored : parameter.storedAs)
                    stored = renamed(stored);
                if (parameter.storedAs.empty()) // as transformers 4 named it, and 5 still saves it
                    parameter.storedAs = {std::string(m_row.text) + "." + old.name + "." + parameter.name};
            }
        }
        for (const Tie &tie : m_text.tree.ties) {
            tree.ties.push_back({renamed(tie.target), renamed(tie.source)});
            const std::size_t dot = tie.target.rfind('.');
            if (const auto owner = tree.indexOf(renamed(tie.target.substr(0, dot))))
                for (Parameter &parameter : m_b.at(*owner).parameters)
                    parameter.storedAs = {std::string(m_row.text) + "." + tie.source};
        }
    }

    // The outer model looks the tokens up and hands embeddings to the backbone.
    void takeEmbeddings() {
        for (auto &[id, program] : m_b.model.programs) {
            const auto *call = program.body.empty() ? nullptr : std::get_if<CallModule>(&program.body.front().node);
            if (!call || call->path != "embed_tokens")
                continue;
            program.inputs.front() = call->out.front();
            program.body.erase(program.body.begin());
        }
    }

    ForwardProgram outer(const std::string &id, const Var &out) const {
        ForwardProgram program;
        program.id = id;
        program.frame = "forward@" + m_b.pythonFile;
        program.inputs = {"input_ids", "attention_mask", "position_ids", "cache"};
        program.outputs = {out};
        return program;
    }

    void addPrograms() {
        const std::string text(m_row.text);
        const std::string backbone = m_row.ownHead ? text + ".model" : text;
        ForwardProgram inner = outer(m_outer, "hidden_states");
        inner.body = {blocks::callModule(backbone + ".embed_tokens", {"input_ids"}, {"inputs_embeds"}),
                      blocks::callModule(text, {"inputs_embeds", "attention_mask", "position_ids", "cache"},
                                         {"hidden_states"})};
        const ModuleIndex root(0);
        if (m_row.ownHead) {
            m_b.define(std::move(inner));
            m_b.at(root).forwardProgram = m_b.baseModelForward(m_outer, blocks::DecoratorPlace::Innermost);
            return;
        }
        m_b.define(std::move(inner));
        m_b.at(*m_b.model.tree.indexOf("model")).forwardProgram =
            m_b.causalLmForward(m_outer, blocks::DecoratorPlace::Innermost);
        // The head does as the text model's own: its logits may be scaled or capped.
        ForwardProgram head = outer(m_b.model.className + ".forward", "logits");
        const ForwardProgram &own = m_text.program(m_text.className + ".forward");
        head.body = own.body;
        head.outputs = own.outputs;
        m_b.model.programs.erase(head.id);
        m_b.define(std::move(head));
        m_b.at(root).forwardProgram = m_b.causalLmForward(m_b.model.className + ".forward",
                                                          blocks::DecoratorPlace::Innermost);
    }

    ModelDescription m_text;
    Row m_row;
    blocks::Builder m_b;
    std::string m_outer; // id of the outer model's forward: the text model's own may be named alike
};

} // namespace

bool hasDescribedText(const ModelConfig &config) {
    return findFamily(config.modelType()) == nullptr && findFamily(textType(config, rowOf(config.modelType()))) != nullptr;
}

Result<ModelDescription> describeTextBackbone(const ModelConfig &config, const Upstream &upstream) {
    const Row row = rowOf(config.modelType());
    auto text = describeText(config, row, upstream);
    if (!text)
        return text;
    return Wrapping(std::move(*text), config, row, upstream).wrapped();
}

} // namespace tpscope
