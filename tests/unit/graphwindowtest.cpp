// SPDX-License-Identifier: GPL-3.0-or-later
// Sliding windows, masks and rope a layer type, loops over sets: mechanisms that llama and qwen3 do
// not use, tried on a description of Gemma3 made for this test.
#include "gemma3description.h"
#include "graphtesting.h"

using namespace tpscope;
using namespace tpscope::test;

namespace {

// Gemma3's own plan; the description in gemma3description.h has no place in the catalogue.
ResolvedPlan gemma3Plan(const ModelDescription &model, const nlohmann::json &changes) {
    nlohmann::json rules{{"lm_head", "colwise_gather_output"},
                         {"model.embed_tokens", "embedding_rowwise"}};
    const std::string layer = "model.layers.*.";
    for (const char *name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                             "mlp.gate_proj", "mlp.up_proj"})
        rules[layer + name] = "colwise";
    for (const char *name : {"self_attn.o_proj", "mlp.down_proj"})
        rules[layer + name] = "rowwise";
    for (const char *name : {"self_attn.q_norm", "self_attn.k_norm"})
        rules[layer + name] = "replicated_with_grad_allreduce";
    rules.update(changes);
    PlanChoice choice;
    choice.kind = PlanChoice::Kind::Document;
    choice.document = valueOf(
        parsePlan(nlohmann::json{{"base", "none"}, {"tp_plan", rules}}.dump(), "plan.json"));
    return resolvePlan(model, choice, nullptr, 2);
}

Setup gemma3(nlohmann::json config, const Upstream &upstream,
             const nlohmann::json &changes = nlohmann::json::object()) {
    config["model_type"] = "gemma3_text";
    const ModelConfig parsed = valueOf(ModelConfig::parse(config.dump(), "config.json"));
    Setup made{valueOf(describeGemma3(parsed, upstream)), {}, hookModeOf(upstream)};
    made.plan = gemma3Plan(made.model, changes);
    return made;
}

} // namespace

class GraphWindowTest : public QObject {
    Q_OBJECT

    const nlohmann::json m_recorded =
        readJson(fixtures + "graph_breaks.json").at("families").at("gemma3_text");
    const nlohmann::json m_configs = readJson(fixtures + "graph_configs.json").at("gemma3_text");

private slots:
    void recordedRows_data();
    void recordedRows();
    void whatSection8TellsInWords();
};

void GraphWindowTest::recordedRows_data() {
    QTest::addColumn<std::string>("version");
    QTest::addColumn<std::string>("layers");
    for (const auto &[version, rows] : m_recorded.items())
        for (const auto &[layers, row] : rows.items())
            if (!layers.starts_with("_"))
                QTest::newRow((version + " L=" + layers).c_str()) << version << layers;
}

void GraphWindowTest::recordedRows() {
    QFETCH(std::string, version);
    QFETCH(std::string, layers);
    const Setup s = gemma3(m_configs.at(layers), upstreamOf(version));
    const GraphCapture found = valueOf(captureGraphs(s.model, s.plan, s.hooks));
    compareRow(found, m_recorded.at(version).at(layers));
}

// fixtures/graph_breaks.md section 8 tells these in words: alternating layers pass the recompile
// limit from 6 layers on; a window that fills during decode; a hook on rotary_emb inside the loop
// over layer types.
void GraphWindowTest::whatSection8TellsInWords() {
    nlohmann::json config = m_configs.at("2");
    config["num_hidden_layers"] = 10;
    for (int i = 2; i < 10; ++i)
        config["layer_types"].push_back(i % 2 ? "full_attention" : "sliding_attention");
    Setup s = gemma3(config, {5, 21});
    GraphCapture found = valueOf(captureGraphs(s.model, s.plan, s.hooks));
    compareSequence(found.decode.launchesPerStep, {65, 61, 61, 61});
    QCOMPARE(found.decode.graphs, 22);

    config = m_configs.at("2");
    config["sliding_window"] = 10;
    s = gemma3(config, {5, 21});
    found = valueOf(captureGraphs(s.model, s.plan, s.hooks));
    compareSequence(found.decode.newGraphsPerStep, {15, 2, 2, 0});

    s = gemma3(m_configs.at("2"), {5, 21},
               {{"model.rotary_emb", "replicated_with_grad_allreduce"},
                {"model.layers.*.self_attn.q_norm", "replicate"},
                {"model.layers.*.self_attn.k_norm", "replicate"}});
    found = valueOf(captureGraphs(s.model, s.plan, s.hooks));
    QCOMPARE(found.prefill.launches, 9);
}

QTEST_APPLESS_MAIN(GraphWindowTest)
#include "graphwindowtest.moc"
