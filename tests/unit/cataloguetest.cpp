// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QtTest>

#include <filesystem>
#include <set>

#include "../support/rawsafetensors.h"
#include "../support/recordedmodels.h"
#include "plan/catalogue.h"
#include "session/workspace.h"

using namespace tpscope;

namespace {

std::vector<CatalogueEntry> everyEntry() {
    std::vector<CatalogueEntry> entries;
    for (const std::string &name : builtinPlanNames()) {
        auto entry = loadCatalogueEntry(name);
        if (!entry)
            qFatal("%s", entry.error().text().c_str());
        if (entry->plan.modelType != name)
            qFatal("%s.yaml is of %s", name.c_str(), entry->plan.modelType.c_str());
        entries.push_back(std::move(*entry));
    }
    return entries;
}

std::string below(const std::string &prefix, const std::string &key) {
    return prefix.empty() ? key : prefix + "." + key;
}

// What upstream would never match: numbers are wildcards of their own, empty segments are no names.
bool isPattern(const std::string &key) {
    for (const QString &segment : QString::fromStdString(key).split('.')) {
        bool isNumber = false;
        segment.toInt(&isNumber);
        if (segment.isEmpty() || isNumber || (segment.contains('*') && segment != "*"))
            return false;
    }
    return true;
}

std::set<std::string> namesOf(const ModuleTree &tree) {
    std::set<std::string> names;
    for (const Module &module : tree.modules) {
        names.insert(genericName(module.name));
        for (const Parameter &parameter : module.parameters)
            names.insert(genericName(below(module.name, parameter.name)));
    }
    return names;
}

// Without those that match nothing.
StyleByKey acting(StyleByKey rules, const std::set<std::string> &names) {
    std::erase_if(rules, [&](const auto &rule) { return !names.contains(rule.first); });
    return rules;
}

Error errorOf(const std::string &text) {
    const auto entry = parseCatalogueEntry("model_type: x\nupstream: y\n" + text, "x.yaml");
    if (entry)
        qFatal("was read: %s", text.c_str());
    return entry.error();
}

} // namespace

// The catalogue that ships: what each file says can be applied.
class CatalogueTest : public QObject {
    Q_OBJECT

private slots:
    void everyFileIsOfOneVersionAndNamesItsClass() {
        std::set<std::string> versions;
        const auto entries = everyEntry();
        for (const CatalogueEntry &entry : entries) {
            versions.insert(entry.plan.source);
            QVERIFY2(!entry.modelClass.empty(), entry.plan.modelType.c_str());
            QVERIFY2(!appliedTpRules(entry).empty() || !appliedEpRules(entry).empty(), entry.plan.modelType.c_str());
        }
        QCOMPARE(versions.size(), std::size_t(1));
        QVERIFY(versions.begin()->starts_with("transformers "));
        QVERIFY2(entries.size() >= 150, std::to_string(entries.size()).c_str());
    }

    void everyRuleNamesAKnownStyleAndNoKeyStandsTwice() {
        for (const CatalogueEntry &entry : everyEntry()) {
            const BuiltinPlan &plan = entry.plan;
            std::set<std::string> tp, ep;
            const auto check = [&](const std::string &key, const PlanRule &rule, std::set<std::string> &keys) {
                const std::string what = plan.modelType + ": " + key;
                QVERIFY2(rule.keyIsText && rule.styleIsText && isPattern(key), what.c_str());
                QVERIFY2(findStyle(rule.style), (what + ": " + rule.style).c_str());
                QVERIFY2(keys.insert(key).second, what.c_str());
                QVERIFY2(!rule.keySpan.valid(), what.c_str());
            };
            for (const PlanRule &rule : plan.classRules)
                check(rule.key, rule, tp);
            for (const PlanRule &rule : plan.configRules)
                check(below(plan.baseModelPrefix, rule.key), rule, tp);
            for (const PlanRule &rule : plan.configEpRules) {
                check(below(plan.baseModelPrefix, rule.key), rule, ep);
                QVERIFY2(!removedFromEpPlan(rule.style), plan.modelType.c_str());
            }
        }
    }

    // A part's rules are those of its own file, behind its name in the whole.
    void aSubModelBringsItsFamilysRules() {
        int compared = 0;
        for (const CatalogueEntry &whole : everyEntry()) {
            const StyleByKey rules = appliedTpRules(whole), epRules = appliedEpRules(whole);
            for (const auto &[name, kind] : whole.subModels) {
                const auto part = loadCatalogueEntry(kind);
                QVERIFY2(part, kind.c_str());
                if (part->modelClass == whole.modelClass || part->plan.configRules.empty())
                    continue;
                for (const PlanRule &rule : part->plan.configRules) {
                    const auto found = rules.find(name + "." + rule.key);
                    const std::string what = whole.plan.modelType + ": " + name + "." + rule.key;
                    QVERIFY2(found != rules.end() && found->second == rule.style, what.c_str());
                    ++compared;
                }
                if (part->defaultEmbedding)
                    QVERIFY2(rules.contains(name + ".embed_tokens"), (whole.plan.modelType + ": " + name).c_str());
                for (const PlanRule &rule : part->plan.configEpRules)
                    QVERIFY2(epRules.contains(name + "." + rule.key), (whole.plan.modelType + ": " + rule.key).c_str());
            }
        }
        QVERIFY(compared > 100);
    }

    void theEmbeddingRuleIsAddedOnlyWhereTheBaseModelHasEmbedTokens() {
        const StyleByKey qwen3 = appliedTpRules(*loadCatalogueEntry("qwen3"));
        QCOMPARE(qwen3.at("model.embed_tokens"), std::string("embedding_rowwise"));
        const auto neox = loadCatalogueEntry("gpt_neox"); // calls it embed_in
        QVERIFY(neox && !appliedTpRules(*neox).contains("gpt_neox.embed_tokens"));
        QCOMPARE(appliedTpRules(*neox).at("gpt_neox.embed_in"), std::string("embedding_rowwise"));
        // The whole has none itself, its text model has.
        const StyleByKey whole = appliedTpRules(*loadCatalogueEntry("qwen2_5_vl"));
        QVERIFY(!whole.contains("model.embed_tokens") && whole.contains("model.language_model.embed_tokens"));
        const StyleByKey given = appliedTpRules(*parseCatalogueEntry(
            "model_type: x\nupstream: y\nbase_model_prefix: m\nbase_model_tp_plan: {a: colwise}\n", "x.yaml"));
        QCOMPARE(given, (StyleByKey{{"m.a", "colwise"}, {"m.embed_tokens", "embedding_rowwise"}}));
    }

    // What `plans show` tells acts on a model as what the resolver applies does.
    void shownRulesAreTheResolversOwn() {
        int compared = 0;
        const auto compare = [&](const nlohmann::json &json, const std::string &name) {
            const auto config = ModelConfig::parse(json.dump(), name);
            const auto model = describe(*config);
            const auto entry = catalogueEntryOf(*config);
            QVERIFY2(model && entry, name.c_str());
            StyleByKey tp, ep;
            const ResolvedPlan plan = resolvePlan(*model, PlanChoice(), &entry->plan, 2);
            for (const EffectiveRule &rule : plan.rules)
                tp[rule.rule.key] = rule.rule.style;
            for (const PlanRule &rule : plan.epRules)
                ep[rule.key] = rule.style;
            const auto names = namesOf(model->tree);
            QVERIFY2(acting(tp, names) == acting(appliedTpRules(*entry), names), name.c_str());
            QVERIFY2(acting(ep, names) == acting(appliedEpRules(*entry), names), name.c_str());
            QVERIFY2(!acting(tp, names).empty(), name.c_str());
            ++compared;
        };
        for (const auto &folder : std::filesystem::directory_iterator(recorded::dataDir() / "fixtures" / "models"))
            compare(recorded::readJson(folder.path() / "config.json"), folder.path().string());
        for (const auto &file : std::filesystem::directory_iterator(recorded::dataDir() / "families"))
            if (file.path().extension() == ".json")
                compare(recorded::readJson(file.path())["config"], file.path().string());
        QVERIFY(compared >= 30);
    }

    // Source: transformers 5.24, InternVLForConditionalGeneration and Kimi_K25ForConditionalGeneration of such configs.
    void aConfigChoosesItsSubModels() {
        const auto entryOf = [](const std::string &kind, const std::string &text) {
            const nlohmann::json json{{"model_type", kind}, {"text_config", {{"model_type", text}}}};
            const auto config = ModelConfig::parse(json.dump(), "config.json");
            auto entry = catalogueEntryOf(*config);
            if (!entry)
                qFatal("%s", entry.error().text().c_str());
            return *entry;
        };
        const std::string layer = "model.language_model.layers.*.";
        const StyleByKey usual = appliedTpRules(*loadCatalogueEntry("internvl"));
        QVERIFY(usual.contains(layer + "self_attn.q_proj") && !usual.contains(layer + "self_attn.q_norm"));
        QVERIFY(appliedTpRules(entryOf("internvl", "qwen2")) == usual);
        const StyleByKey qwen3 = appliedTpRules(entryOf("internvl", "qwen3"));
        QCOMPARE(qwen3.at(layer + "self_attn.q_norm"), std::string("replicated_with_grad_allreduce"));
        QCOMPARE(qwen3.at("model.language_model.embed_tokens"), std::string("embedding_rowwise"));
        QCOMPARE(qwen3.size(), usual.size() + 2);
        QCOMPARE(entryOf("internvl", "qwen3").subModels.front().second, std::string("qwen3"));
        QCOMPARE(appliedTpRules(entryOf("internvl", "gpt2")), (StyleByKey{{"lm_head", "colwise_gather_output"}}));
        const StyleByKey experts = appliedEpRules(entryOf("kimi_k25", "mixtral"));
        QCOMPARE(experts.at(layer + "mlp.experts"), std::string("ep_dispatch_experts"));
        QVERIFY(appliedEpRules(entryOf("kimi_k25", "llama")).empty());
        // Its text model is of one class, whatever the file says.
        QVERIFY(appliedTpRules(entryOf("qwen2_5_vl", "qwen3")) == appliedTpRules(*loadCatalogueEntry("qwen2_5_vl")));
    }

    void rulesOfSubModelsAreFullNames() {
        const auto entry = parseCatalogueEntry(
            "model_type: x\nupstream: y\nsub_model_ep_plan: {m.e: grouped_gemm}\nsub_model_tp_plan: {m.b.q: colwise}\n"
            "sub_models: {m.b: z}\nbase_model_prefix: m\n",
            "x.yaml");
        QVERIFY2(entry, entry ? "" : entry.error().text().c_str());
        QCOMPARE(entry->plan.configEpRules.front().key, std::string("e"));
        QCOMPARE(appliedEpRules(*entry), (StyleByKey{{"m.e", "grouped_gemm"}}));
        QCOMPARE(appliedTpRules(*entry), (StyleByKey{{"m.b.q", "colwise"}}));
        QCOMPARE(entry->subModels.front().second, std::string("z"));
    }

    // gpt_neox's base model is not called "model"; its flow is not described, so names come from the tensors.
    void aModelNobodyDescribedIsMatchedBehindItsOwnPrefix() {
        QTemporaryDir folder;
        const std::filesystem::path path = folder.path().toStdString();
        testing::writeBytes(path / "config.json", R"({"model_type": "gpt_neox", "vocab_size": 8})");
        const std::string dense = "gpt_neox.layers.0.attention.dense.weight";
        testing::writeBytes(path / "model.safetensors",
                            testing::rawSafetensors("{" + testing::tensorJson(dense, "F32", "[4,4]", 0, 64) + "}", 64));
        const auto workspace = openWorkspace(path.string());
        QVERIFY2(workspace, workspace ? "" : workspace.error().text().c_str());
        QVERIFY(!(*workspace)->model.flowKnown());
        const ResolvedPlan plan = resolvePlan((*workspace)->model, PlanChoice(), (*workspace)->builtinOrNull(), 2);
        const EffectiveRule *rule = plan.ruleOfParameter(dense);
        QVERIFY(rule && rule->rule.key == "gpt_neox.layers.*.attention.dense" && rule->rule.style == "rowwise");
    }

    void aWrongFileIsNamedWithItsLine() {
        QCOMPARE(errorOf("default_embedding: maybe\n").location->line, 3);
        QCOMPARE(errorOf("class: [a]\n").location->line, 3);
        QCOMPARE(errorOf("sub_models: [a]\n").location->line, 3);
        QCOMPARE(errorOf("sub_models:\n  a: {}\n").location->line, 4);
        const Error outside = errorOf("base_model_prefix: m\nsub_model_ep_plan: {n.e: grouped_gemm}\n");
        QCOMPARE(outside.location->line, 4);
        QVERIFY(outside.message.find("n.e") != std::string::npos);
    }

    void anUnknownModelTypeNamesThoseNearIt() {
        const auto entry = loadCatalogueEntry("qwen33");
        QVERIFY(!entry && entry.error().code == ErrorCode::NotFound);
        QVERIFY(entry.error().message.find("qwen3") != std::string::npos);
        QVERIFY(entry.error().message.size() < 300);
    }
};

QTEST_APPLESS_MAIN(CatalogueTest)
#include "cataloguetest.moc"
