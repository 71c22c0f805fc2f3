// SPDX-License-Identifier: GPL-3.0-or-later
#include <QtTest>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "plan/planwriter.h"

using namespace tpscope;
using nlohmann::json;

namespace {

struct Written {
    ModelDescription model;
    BuiltinPlan builtin;
    PlanChoice choice;
    ResolvedPlan plan;
};

Written written(const std::string &text, const std::string &name = "qwen3", int tp = 2) {
    const auto config = ModelConfig::load(std::string(TPSCOPE_TEST_DATA "/fixtures/models/") + name + "/config.json");
    Written out{*describe(*config), *loadBuiltinPlan(config->modelType()), {}, {}};
    if (text != "auto") {
        out.choice.kind = PlanChoice::Kind::Document;
        out.choice.document = *parsePlan(text, "plan.yaml");
    }
    out.plan = resolvePlan(out.model, out.choice, &out.builtin, tp);
    return out;
}

std::map<std::string, std::string> stylesOf(const Written &from, const std::string &text) {
    PlanChoice choice;
    choice.kind = PlanChoice::Kind::Document;
    const auto document = parsePlan(text, "written");
    if (!document)
        qFatal("%s", document.error().text().c_str());
    choice.document = *document;
    const ResolvedPlan plan = resolvePlan(from.model, choice, &from.builtin, document->tpSize.value_or(0));
    std::map<std::string, std::string> styles;
    for (const auto &[name, rule] : plan.parameterRule)
        styles[name] = plan.rules[static_cast<std::size_t>(rule)].rule.style;
    for (std::size_t m = 0; m < plan.moduleRule.size(); ++m)
        if (const EffectiveRule *rule = plan.ruleOfModule(ModuleIndex(m)))
            styles["module " + from.model.tree.modules[m].name] = rule->rule.style;
    return styles;
}

// replicate acts like no rule at all.
std::map<std::string, std::string> withoutReplicate(std::map<std::string, std::string> styles) {
    std::erase_if(styles, [](const auto &entry) { return entry.second == "replicate"; });
    return styles;
}

const char *const plans[] = {
    "auto",
    "tp_size: 2\ntp_plan:\n  model.layers.*.mlp.up_proj: replicate\n  model.layers.*.self_attn.q_norm: replicate\n",
    "base: none\ntp_plan:\n  model.layers.*.mlp.up_proj: colwise\n  model.layers.*.mlp.down_proj.weight: rowwise\n",
    "base: none\ntp_plan:\n  lm_head.weight: colwise\n  model.layers.*.mlp: replicate\n",
};

} // namespace

class PlanWriterTest : public QObject {
    Q_OBJECT

private slots:
    void readsBackToTheSameStyles();
    void shortFormHasTheFilesRulesOnly();
    void jsonIsAConfig();
    void whatIsNoTextKeepsItsType();
    void emptyPlanStaysEmpty();
    void cancelledParameterTakesItsModulesRule();
    void python();
};

void PlanWriterTest::readsBackToTheSameStyles() {
    for (const char *text : plans) {
        const Written from = written(text);
        const auto expected = stylesOf(from, from.choice.document ? from.choice.document->text : "tp_plan: auto");
        const PlanToWrite own = ownRules(from.model, from.choice, from.plan);
        const PlanToWrite all = effectiveRules(from.model, from.plan);
        QCOMPARE(stylesOf(from, toYaml(own)), expected);
        QCOMPARE(stylesOf(from, toYaml(all)), expected);
        // JSON has no base: none; what it must not apply is cancelled.
        QCOMPARE(withoutReplicate(stylesOf(from, toJson(own))), withoutReplicate(expected));
        QCOMPARE(withoutReplicate(stylesOf(from, toJson(all))), withoutReplicate(expected));
    }
}

void PlanWriterTest::shortFormHasTheFilesRulesOnly() {
    const Written from = written(plans[1]);
    const PlanToWrite own = ownRules(from.model, from.choice, from.plan);
    QCOMPARE(own.rules.size(), std::size_t(2));
    QCOMPARE(toYaml(own), std::string("model_type: qwen3\n") + plans[1]);
    const Written automatic = written("auto");
    QVERIFY(toYaml(ownRules(automatic.model, automatic.choice, automatic.plan)).find("tp_plan: auto") !=
            std::string::npos);
    QCOMPARE(effectiveRules(automatic.model, automatic.plan).rules.size(), automatic.plan.rules.size());
}

void PlanWriterTest::jsonIsAConfig() {
    const Written from = written(plans[1], "qwen3", 4);
    const json own = json::parse(toJson(ownRules(from.model, from.choice, from.plan)));
    const json expected{{"tp_size", 4},
                        {"tp_plan",
                         {{"model.layers.*.mlp.up_proj", "replicate"},
                          {"model.layers.*.self_attn.q_norm", "replicate"}}}};
    QCOMPARE(own, expected);
    const Written automatic = written("auto");
    QCOMPARE(json::parse(toJson(ownRules(automatic.model, automatic.choice, automatic.plan))).at("tp_plan"),
             json("auto"));
}

void PlanWriterTest::whatIsNoTextKeepsItsType() {
    const Written from = written("tp_plan: {a: null, b: 3, c: \"3\", d: [x], e: true, f: \"it's \\\"so\\\"\"}");
    const PlanToWrite own = ownRules(from.model, from.choice, from.plan);
    const auto again = parsePlan(toYaml(own), "written");
    QVERIFY(again);
    for (std::size_t i = 0; i < again->rules.size(); ++i) {
        QCOMPARE(again->rules[i].style, from.choice.document->rules[i].style);
        QCOMPARE(again->rules[i].styleIsText, from.choice.document->rules[i].styleIsText);
    }
    const json plan = json::parse(toJson(own)).at("tp_plan");
    QVERIFY(plan["a"].is_null() && plan["b"] == 3 && plan["c"] == "3" && plan["e"] == true);
    const std::string python = toPython(own, {"m", "p.py"});
    for (const char *line : {"\"a\": None,", "\"b\": 3,", "\"c\": \"3\",", "\"e\": True,", "\"f\": \"it's \\\"so\\\"\","})
        QVERIFY2(python.find(line) != std::string::npos, line);
}

void PlanWriterTest::emptyPlanStaysEmpty() {
    for (const char *text : {"{}", "base: none\ntp_plan: {}\n"}) {
        const Written from = written(text);
        const PlanToWrite own = ownRules(from.model, from.choice, from.plan);
        QVERIFY(!own.automatic);
        QCOMPARE(json::parse(toJson(own)).at("tp_plan"), json::object());
        QVERIFY(parsePlan(toYaml(own), "written")->hasTpPlan);
    }
}

// A left-out rule of a bare parameter, whose owner has a rule in the file: replicate would cut that rule off it.
void PlanWriterTest::cancelledParameterTakesItsModulesRule() {
    Written from = written("base: none\ntp_plan: {model.layers.*.mlp.up_proj: colwise}");
    PlanRule rule;
    rule.key = "layers.*.mlp.up_proj.weight";
    rule.style = "rowwise";
    from.builtin.configRules.push_back(rule);
    from.plan = resolvePlan(from.model, from.choice, &from.builtin, 2);
    const json plan = json::parse(toJson(ownRules(from.model, from.choice, from.plan))).at("tp_plan");
    QCOMPARE(plan.at("model.layers.*.mlp.up_proj.weight"), json("colwise"));
    QCOMPARE(plan.at("lm_head"), json("replicate"));
}

void PlanWriterTest::python() {
    const Written from = written(plans[1]);
    const QString script = QString::fromStdString(
        toPython(ownRules(from.model, from.choice, from.plan), {"some/model \"x\"", "run_it.py"}));
    QVERIFY(script.contains("torchrun --nproc-per-node 2 run_it.py"));
    QVERIFY(script.contains("from transformers.distributed import DistributedConfig\n"));
    QVERIFY(script.contains("    \"model.layers.*.mlp.up_proj\": \"replicate\",\n"));
    QVERIFY(script.contains("DistributedConfig(tp_plan=tp_plan, tp_size=2)"));
    QVERIFY(script.contains("\"some/model \\\"x\\\"\""));
    const Written automatic = written("auto", "llama", 1);
    const QString single = QString::fromStdString(
        toPython(ownRules(automatic.model, automatic.choice, automatic.plan), {"m", "p.py"}));
    QVERIFY(single.contains("tp_plan=\"auto\", tp_size=1") && !single.contains("torchrun"));
    QVERIFY(!single.contains("destroy_process_group")); // none is made
}

QTEST_APPLESS_MAIN(PlanWriterTest)
#include "planwritertest.moc"
