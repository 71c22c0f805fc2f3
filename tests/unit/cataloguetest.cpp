// SPDX-License-Identifier: GPL-3.0-or-later
#include <QtTest>

#include <filesystem>
#include <set>

#include "../support/recordedmodels.h"
#include "plan/catalogue.h"

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
        QCOMPARE(appliedTpRules(*loadCatalogueEntry("qwen3")).at("model.embed_tokens"), std::string("embedding_rowwise"));
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

    // What `plans show` tells is what the resolver applies.
    void shownRulesAreTheResolversOwn() {
        int compared = 0;
        for (const auto &folder : std::filesystem::directory_iterator(recorded::dataDir() / "fixtures" / "models")) {
            const auto subject = recorded::load(folder.path().filename().string());
            if (!subject)
                continue;
            StyleByKey tp, ep;
            const ResolvedPlan plan = resolvePlan(subject->model, PlanChoice(), &subject->builtin, 2);
            for (const EffectiveRule &rule : plan.rules)
                tp[rule.rule.key] = rule.rule.style;
            for (const PlanRule &rule : plan.epRules)
                ep[rule.key] = rule.style;
            const auto entry = loadCatalogueEntry(subject->builtin.modelType);
            QVERIFY(entry);
            QVERIFY2(tp == appliedTpRules(*entry) && ep == appliedEpRules(*entry), folder.path().c_str());
            ++compared;
        }
        QVERIFY(compared >= 11);
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
