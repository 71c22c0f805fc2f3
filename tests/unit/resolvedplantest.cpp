// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QtTest>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/resolvedplan.h"

using namespace tpscope;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(TPSCOPE_TEST_DATA) / "fixtures";

json read(const fs::path &path) {
    std::ifstream in(path);
    return json::parse(in);
}

struct Loaded {
    ModelDescription model;
    BuiltinPlan builtin;
};

// The recorded model, with its config changed where a case says so.
std::optional<Loaded> load(const std::string &name, const json &changes = json::object()) {
    const fs::path path = fixtures / "models" / name / "config.json";
    if (!fs::exists(path))
        return std::nullopt;
    json config = read(path);
    config.update(changes);
    const auto parsed = ModelConfig::parse(config.dump(), path.string());
    if (!parsed)
        qFatal("%s", parsed.error().text().c_str());
    const auto model = describe(*parsed);
    if (!model)
        qFatal("%s", model.error().text().c_str());
    const auto builtin = loadBuiltinPlan(model->modelType);
    if (!builtin)
        qFatal("%s", builtin.error().text().c_str());
    return Loaded{*model, *builtin};
}

PlanChoice choiceOf(const std::string &text) {
    PlanChoice choice;
    auto document = parsePlan(text, "plan.yaml");
    if (!document)
        qFatal("%s", document.error().text().c_str());
    choice.kind = PlanChoice::Kind::Document;
    choice.document = std::move(*document);
    return choice;
}

ResolvedPlan resolveText(const std::string &text, const std::string &model = "llama",
                         const json &changes = json::object()) {
    const auto loaded = load(model, changes);
    return resolvePlan(loaded->model, choiceOf(text), &loaded->builtin, 2);
}

const EffectiveRule *ruleOf(const ResolvedPlan &plan, const std::string &key) {
    const auto found =
        std::ranges::find_if(plan.rules, [&](const EffectiveRule &rule) { return rule.rule.key == key; });
    return found == plan.rules.end() ? nullptr : &*found;
}

std::map<std::string, std::string> rulesOf(const ResolvedPlan &plan) {
    std::map<std::string, std::string> rules;
    for (const EffectiveRule &rule : plan.rules)
        rules[rule.rule.key] = rule.rule.style;
    return rules;
}

// The keys transformers refuses: named by the file, in no plan and no model.
std::set<std::string> refusedKeys(const ResolvedPlan &plan) {
    std::set<std::string> keys;
    for (const EffectiveRule &rule : plan.rules)
        if (rule.documentIndex && !rule.matches && !rule.overridesInherited)
            keys.insert(rule.rule.key);
    return keys;
}

std::set<std::string> unmatchedKeys(const ResolvedPlan &plan) {
    std::set<std::string> keys;
    for (const EffectiveRule &rule : plan.rules)
        if (!rule.matches)
            keys.insert(rule.rule.key);
    return keys;
}

// The names in the first [...] of a recorded message.
std::set<std::string> listed(const std::string &message) {
    std::set<std::string> names;
    const auto text = QString::fromStdString(message);
    const int end = static_cast<int>(text.indexOf(']'));
    static const QRegularExpression item("'((?:[^'\\\\]|\\\\.)*)'|(\\d+)");
    for (auto it = item.globalMatch(text.left(end), text.indexOf('[')); it.hasNext();) {
        const auto match = it.next();
        QString name = match.captured(1) + match.captured(2);
        names.insert(name.replace("\\\\", "\\").toStdString());
    }
    return names;
}

} // namespace

class ResolvedPlanTest : public QObject {
    Q_OBJECT

private slots:
    void autoEqualsTheRecordedPlan_data();
    void autoEqualsTheRecordedPlan();
    void recordedCases_data();
    void recordedCases();
    void fileRulesKeepTheInheritedPlace();
    void parameterRuleBeatsItsModules();
    void tiedHeadTakesItsOwnRule();
    void duplicatesTheLastWins();
    void emptyMappingIsNotMerged();
    void anythingButAMappingIsAuto();
    void baseNoneLeavesOut();
    void configPlan();
    void configPlanThatIsNoMapping();
    void rootKeyIsDropped();
    void expertRules();
    void catalogue();
    void choices();
};

void ResolvedPlanTest::autoEqualsTheRecordedPlan_data() {
    QTest::addColumn<QString>("file");
    for (const auto &entry : fs::directory_iterator(fixtures / "sharding"))
        QTest::newRow(entry.path().stem().c_str()) << QString::fromStdString(entry.path().string());
}

void ResolvedPlanTest::autoEqualsTheRecordedPlan() {
    QFETCH(QString, file);
    const json recorded = read(file.toStdString());
    const auto loaded = load(recorded.at("model"));
    QVERIFY(loaded);
    const ResolvedPlan plan = resolvePlan(loaded->model, PlanChoice(), &loaded->builtin, recorded.at("tp"));
    QCOMPARE(plan.baseMode, std::string("builtin"));
    QCOMPARE(rulesOf(plan), recorded.at("plan").get<decltype(rulesOf(plan))>());
    std::map<std::string, std::string> modules;
    for (std::size_t m = 0; m < loaded->model.tree.modules.size(); ++m)
        if (const ParallelStyle *style = plan.styleOfModule(ModuleIndex(m)))
            modules[loaded->model.tree.modules[m].name] = style->name;
    // The recorder lists what it found no parameter for: a tied head's weight too, which takes its own rule.
    for (const Tie &tie : loaded->model.tree.ties)
        if (const ParallelStyle *style = plan.styleOfParameter(tie.target))
            modules[tie.target] = style->name;
    QCOMPARE(modules, recorded.at("module_styles").get<decltype(modules)>());
    for (const auto &[name, parameter] : recorded.at("parameters").items()) {
        const ParallelStyle *style = plan.styleOfParameter(name);
        const json expected = parameter.at("style");
        QVERIFY2(expected.is_null() ? !style : style && expected == std::string(style->name), name.c_str());
    }
}

void ResolvedPlanTest::recordedCases_data() {
    QTest::addColumn<QString>("text");
    const json recorded = read(fixtures / "plan_errors.json");
    for (const json &c : recorded.at("cases"))
        QTest::newRow(c.at("case").get<std::string>().c_str()) << QString::fromStdString(c.dump());
}

// Which keys are refused, which styles are unknown, which rules upstream warns about: as transformers said it.
void ResolvedPlanTest::recordedCases() {
    QFETCH(QString, text);
    const json c = json::parse(text.toStdString());
    json changes = json::object();
    const json extra = c.value("extra", json::object());
    if (extra.contains("config_plan"))
        changes["base_model_tp_plan"] = extra["config_plan"];
    const auto loaded = load(c.at("model"), changes);
    if (!loaded)
        QSKIP("its model is not described yet");
    if (extra.contains("tp_size"))
        QSKIP("about sizes");
    PlanChoice choice;
    if (c.at("plan") != "auto") {
        // The recorded key 3 was a number; JSON knows only texts.
        std::string plan = json{{"tp_plan", c["plan"]}}.dump();
        if (c.at("case") == "key_not_string")
            plan = "tp_plan: {3: colwise}";
        choice = choiceOf(plan);
    }
    if (extra.contains("ep_plan"))
        choice = choiceOf(json{{"tp_plan", c["plan"]}, {"ep_plan", extra["ep_plan"]}}.dump());
    if (extra.contains("ep_size"))
        choice.ep = extra["ep_size"].get<int>();
    const ResolvedPlan plan = resolvePlan(loaded->model, choice, &loaded->builtin, c.at("tp"));

    const std::string error = c.contains("load_error") ? c["load_error"].value("message", "") : "";
    const bool keysRefused = error.find("match nothing in") != std::string::npos;
    QCOMPARE(refusedKeys(plan), keysRefused ? listed(error) : std::set<std::string>());
    bool stylesUnknown = false;
    for (const EffectiveRule &rule : plan.rules)
        if (!rule.style) {
            stylesUnknown = true;
            const std::string quoted = rule.rule.styleIsText ? "'" + rule.rule.style + "'" : rule.rule.style;
            QVERIFY2(keysRefused || error.find(quoted == "null" ? "None" : quoted) != std::string::npos,
                     (rule.rule.style + " in " + error).c_str());
        }
    if (!keysRefused)
        QCOMPARE(stylesUnknown, error.find("Unsupported `tp_plan` styles") != std::string::npos);
    std::set<std::string> warned;
    const json log = c.value("log_rank0", json::array());
    for (const json &line : log)
        if (line.get<std::string>().find("match nothing in") != std::string::npos)
            warned = listed(line);
    if (error.empty())
        QCOMPARE(unmatchedKeys(plan), warned);
    if (error.find("has no `tp_plan`") != std::string::npos)
        QVERIFY(plan.noPlan || plan.emptyMapping);
}

void ResolvedPlanTest::fileRulesKeepTheInheritedPlace() {
    const auto loaded = load("llama");
    const ResolvedPlan before = resolvePlan(loaded->model, PlanChoice(), &loaded->builtin, 2);
    const ResolvedPlan plan = resolveText("tp_plan:\n  model.norm: replicate\n  model.embed_tokens: replicate\n");
    QCOMPARE(plan.rules.size(), before.rules.size() + 1);
    for (std::size_t i = 0; i < before.rules.size(); ++i)
        QCOMPARE(plan.rules[i].rule.key, before.rules[i].rule.key);
    QCOMPARE(before.rules.front().rule.origin, RuleOrigin::ClassRule);
    QCOMPARE(before.rules[1].rule.origin, RuleOrigin::DefaultEmbedding);
    QCOMPARE(before.rules[2].rule.origin, RuleOrigin::ConfigPlan);
    const EffectiveRule *embedding = ruleOf(plan, "model.embed_tokens");
    QVERIFY(embedding->overridesInherited && embedding->documentIndex == std::optional<std::size_t>(1));
    QCOMPARE(embedding->rule.origin, RuleOrigin::File);
    QCOMPARE(plan.rules.back().rule.key, std::string("model.norm"));
    QVERIFY(!plan.rules.back().overridesInherited && plan.rules.back().matches);
}

void ResolvedPlanTest::parameterRuleBeatsItsModules() {
    const std::string up = "model.layers.*.mlp.up_proj";
    const ResolvedPlan plan = resolveText("tp_plan: {" + up + ".weight: replicate}", "llama_bias");
    QCOMPARE(std::string(plan.styleOfParameter("model.layers.0.mlp.up_proj.weight")->name), std::string("replicate"));
    QCOMPARE(std::string(plan.styleOfParameter("model.layers.0.mlp.up_proj.bias")->name), std::string("colwise"));
    const auto loaded = load("llama_bias");
    const auto module = loaded->model.tree.indexOf("model.layers.1.mlp.up_proj");
    QCOMPARE(plan.ruleOfModule(*module)->rule.key, up);
    QVERIFY(ruleOf(plan, up + ".weight")->modules.empty());
    QCOMPARE(ruleOf(plan, up + ".weight")->parameters.size(), std::size_t(loaded->model.dims.layers));
    // One level up and no further: the rule of mlp does not reach the weights of its children.
    const ResolvedPlan mlp = resolveText("base: none\ntp_plan: {model.layers.*.mlp: replicate}");
    QVERIFY(mlp.parameterRule.empty());
    QCOMPARE(mlp.rules.front().modules.size(), std::size_t(loaded->model.dims.layers));
}

void ResolvedPlanTest::tiedHeadTakesItsOwnRule() {
    const ResolvedPlan plan = resolveText("tp_plan: {lm_head.weight: replicate}", "llama_tied");
    QVERIFY(refusedKeys(plan).empty());
    QCOMPARE(std::string(plan.styleOfParameter("lm_head.weight")->name), std::string("replicate"));
    QCOMPARE(std::string(plan.styleOfParameter("model.embed_tokens.weight")->name), std::string("embedding_rowwise"));
}

void ResolvedPlanTest::duplicatesTheLastWins() {
    const ResolvedPlan plan = resolveText("tp_plan:\n  lm_head: colwise\n  model.norm: replicate\n  lm_head: replicate\n"
                                          "  model.norm: colwise\n  lm_head: rowwise\n");
    const std::vector<std::vector<std::size_t>> expected{{0, 2, 4}, {1, 3}};
    QCOMPARE(plan.duplicates, expected);
    QCOMPARE(ruleOf(plan, "lm_head")->rule.style, std::string("rowwise"));
    QVERIFY(ruleOf(plan, "lm_head")->overridesInherited);
    QCOMPARE(*ruleOf(plan, "lm_head")->documentIndex, std::size_t(4));
    QVERIFY(!ruleOf(plan, "model.norm")->overridesInherited);
}

void ResolvedPlanTest::emptyMappingIsNotMerged() {
    for (const char *text : {"{}", "tp_plan: {}", "{\"tp_plan\": {}, \"tp_size\": 2}"}) {
        const ResolvedPlan plan = resolveText(text);
        QVERIFY2(plan.emptyMapping && plan.rules.empty() && !plan.noPlan, text);
    }
    const auto loaded = load("llama");
    PlanChoice none;
    none.kind = PlanChoice::Kind::None;
    const ResolvedPlan plan = resolvePlan(loaded->model, none, &loaded->builtin, 1);
    QVERIFY(plan.noPlan && !plan.emptyMapping && plan.rules.empty());
    QCOMPARE(plan.baseMode, std::string("none"));
    // A family without built-in plan has nothing to apply either.
    QVERIFY(resolvePlan(loaded->model, PlanChoice(), nullptr, 2).noPlan);
}

void ResolvedPlanTest::anythingButAMappingIsAuto() {
    const auto loaded = load("llama");
    const auto expected = rulesOf(resolvePlan(loaded->model, PlanChoice(), &loaded->builtin, 2));
    for (const char *text : {"tp_plan: auto", "tp_plan: [a, b]", "tp_plan: 3", "tp_plan:", "tp_size: 2"})
        QVERIFY2(rulesOf(resolveText(text)) == expected, text);
}

void ResolvedPlanTest::baseNoneLeavesOut() {
    const ResolvedPlan plan = resolveText("base: none\ntp_plan:\n  model.layers.*.mlp.up_proj: colwise\n  lm_hed: colwise\n");
    QCOMPARE(plan.rules.size(), std::size_t(2));
    QVERIFY(!ruleOf(plan, "model.layers.*.mlp.up_proj")->overridesInherited);
    QCOMPARE(refusedKeys(plan), (std::set<std::string>{"lm_hed"}));
    QVERIFY(!plan.styleOfParameter("lm_head.weight") && !plan.styleOfParameter("model.embed_tokens.weight"));
    std::set<std::string> leftOut;
    for (const PlanRule &rule : plan.leftOut)
        leftOut.insert(rule.key);
    QVERIFY(leftOut.contains("lm_head") && leftOut.contains("model.embed_tokens"));
    QVERIFY(!leftOut.contains("model.layers.*.mlp.up_proj"));
}

void ResolvedPlanTest::configPlan() {
    const json own{{"base_model_tp_plan", {{"layers.*.mlp.up_proj", "colwise"}, {"layers.*.mlp.upp", "colwise"}}}};
    const auto loaded = load("llama", own);
    const ResolvedPlan plan = resolvePlan(loaded->model, PlanChoice(), &loaded->builtin, 2);
    QCOMPARE(plan.baseMode, std::string("config"));
    const std::map<std::string, std::string> expected{{"lm_head", "colwise_gather_output"},
                                                      {"model.embed_tokens", "embedding_rowwise"},
                                                      {"model.layers.*.mlp.up_proj", "colwise"},
                                                      {"model.layers.*.mlp.upp", "colwise"}};
    QCOMPARE(rulesOf(plan), expected);
    QVERIFY(refusedKeys(plan).empty()); // inherited rules that match nothing only warn
    QCOMPARE(unmatchedKeys(plan), (std::set<std::string>{"model.layers.*.mlp.upp"}));
    // A file that repeats such a key is warned too, not refused.
    const ResolvedPlan repeated = resolveText("tp_plan: {model.layers.*.mlp.upp: rowwise}", "llama", own);
    QVERIFY(refusedKeys(repeated).empty());
    QVERIFY(ruleOf(repeated, "model.layers.*.mlp.upp")->overridesInherited);
    // A plan that names the embedding itself keeps its style; an empty one gets no default rule.
    const auto named = load("llama", {{"base_model_tp_plan", {{"embed_tokens", "embedding_colwise"}}}});
    QCOMPARE(rulesOf(resolvePlan(named->model, PlanChoice(), &named->builtin, 2)).at("model.embed_tokens"),
             std::string("embedding_colwise"));
    const auto empty = load("llama", {{"base_model_tp_plan", json::object()}});
    QCOMPARE(rulesOf(resolvePlan(empty->model, PlanChoice(), &empty->builtin, 2)),
             (std::map<std::string, std::string>{{"lm_head", "colwise_gather_output"}}));
}

void ResolvedPlanTest::configPlanThatIsNoMapping() {
    for (const json &value : {json("abc"), json(3), json(true)}) {
        const auto loaded = load("llama", {{"base_model_tp_plan", value}});
        QVERIFY(!resolvePlan(loaded->model, PlanChoice(), &loaded->builtin, 2).configPlanProblem.empty());
    }
    const auto null = load("llama", {{"base_model_tp_plan", json::array()}});
    QVERIFY(resolvePlan(null->model, PlanChoice(), &null->builtin, 2).configPlanProblem.empty());
}

void ResolvedPlanTest::rootKeyIsDropped() {
    const ResolvedPlan plan = resolveText("tp_plan: {\"\": all_reduce}");
    const EffectiveRule *rule = ruleOf(plan, "");
    QVERIFY(rule && rule->matches && rule->dropped && rule->modules.empty());
    QCOMPARE(plan.moduleRule.front(), -1);
}

void ResolvedPlanTest::expertRules() {
    const ResolvedPlan plan = resolveText("ep_plan:\n  model.layers.*.mlp: ep_dispatch_experts\n  nowhere: grouped_gemm\n");
    QCOMPARE(plan.epRules.size(), std::size_t(2));
    QCOMPARE(plan.epUnmatched.size(), std::size_t(1));
    QCOMPARE(plan.epUnmatched.front().key, std::string("nowhere"));
    QVERIFY(!plan.rules.empty());
}

void ResolvedPlanTest::catalogue() {
    const std::vector<std::string> names = builtinPlanNames();
    QVERIFY(std::ranges::is_sorted(names));
    for (const std::string &name : names) {
        const auto plan = loadBuiltinPlan(name);
        QVERIFY2(plan, plan ? "" : plan.error().text().c_str());
        QCOMPARE(plan->modelType, name);
        QVERIFY(QString::fromStdString(plan->source).startsWith("transformers "));
        for (const auto *rules : {&plan->classRules, &plan->configRules})
            for (const PlanRule &rule : *rules)
                QVERIFY2(findStyle(rule.style) && !rule.keySpan.valid(), rule.key.c_str());
    }
    QVERIFY(std::ranges::find(names, "llama") != names.end());
    for (const char *name : {"nomodel", "", "../llama", ".", "llama.yaml"}) {
        const auto plan = loadBuiltinPlan(name);
        QVERIFY2(!plan && plan.error().code == ErrorCode::NotFound, name);
    }
    const auto wrong = parseBuiltinPlan("model_type: x\nupstream: y\nclass_tp_plan: [a]\n", "x.yaml");
    QVERIFY(!wrong && wrong.error().location->line == 3);
    QVERIFY(!parseBuiltinPlan("model_type: x\nupstream: y\nplan: {}\n", "x.yaml"));
    QVERIFY(!parseBuiltinPlan("model_type: x\n", "x.yaml"));
}

void ResolvedPlanTest::choices() {
    QCOMPARE(PlanChoice::parse("auto")->kind, PlanChoice::Kind::Auto);
    QCOMPARE(PlanChoice::parse("none")->kind, PlanChoice::Kind::None);
    const auto missing = PlanChoice::parse("no/such/plan.yaml");
    QVERIFY(!missing && missing.error().code == ErrorCode::NotFound);
    QVERIFY(missing.error().text().find("no/such/plan.yaml") != std::string::npos);
}

QTEST_APPLESS_MAIN(ResolvedPlanTest)
#include "resolvedplantest.moc"
