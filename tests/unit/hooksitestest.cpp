// SPDX-License-Identifier: GPL-3.0-or-later
// Where gradient-sync hooks sit, by plan and mode.
#include "graph/hooksites.h"

#include <QtTest>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tpscope;

namespace {

const std::string models = TPSCOPE_TEST_DATA "/fixtures/models/";

template <typename T> T valueOf(Result<T> result) {
    if (!result)
        qFatal("%s", result.error().text().c_str());
    return std::move(*result);
}

ModelDescription model(const std::string &name) {
    return valueOf(describe(valueOf(ModelConfig::load(models + name + "/config.json"))));
}

ResolvedPlan planOf(const ModelDescription &described, const std::string &text, int tp = 2) {
    PlanChoice choice;
    if (!text.empty()) {
        choice.kind = PlanChoice::Kind::Document;
        choice.document = valueOf(parsePlan(text, "plan.yaml"));
    }
    const BuiltinPlan builtin = valueOf(loadBuiltinPlan(described.modelType));
    return resolvePlan(described, choice, &builtin, tp);
}

std::vector<std::string> names(const std::vector<HookSite> &sites) {
    std::vector<std::string> list;
    for (const HookSite &site : sites)
        list.push_back(site.name);
    return list;
}

} // namespace

class HookSitesTest : public QObject {
    Q_OBJECT

private slots:
    void modesHaveNames();
    void versionsHaveModes();
    void theModulesWithTheStyleInModuleOrder();
    void everyModeSaysWhatItDoes();
    void aRuleOfTheFileHasItsLine();
    void modulesWithoutParametersAreHookedAsModulesOnly();
    void aRuleForAParameterHooksNothing();
    void nothingIsHookedOnOneRank();
};

void HookSitesTest::modesHaveNames() {
    for (const HookMode mode : {HookMode::None, HookMode::ModuleBackward,
                                HookMode::PostAccumulateGrad, HookMode::TensorGrad})
        QVERIFY(valueOf(parseHookMode(std::string(name(mode)))) == mode);
    const auto wrong = parseHookMode("module");
    QVERIFY(!wrong);
    QCOMPARE(wrong.error().code, ErrorCode::Usage);
    QVERIFY(wrong.error().message.find("post-accumulate-grad") != std::string::npos);
}

void HookSitesTest::versionsHaveModes() {
    QVERIFY(hookModeOf({5, 21}) == HookMode::ModuleBackward);
    QVERIFY(hookModeOf({5, 22}) == HookMode::PostAccumulateGrad);
    QVERIFY(hookModeOf({5, 24}) == HookMode::PostAccumulateGrad);
}

void HookSitesTest::theModulesWithTheStyleInModuleOrder() {
    const ModelDescription qwen3 = model("qwen3");
    const auto sites = hookSites(qwen3, planOf(qwen3, ""), HookMode::ModuleBackward);
    QCOMPARE(sites.size(), static_cast<std::size_t>(2 * qwen3.dims.layers));
    QCOMPARE(sites[0].name, std::string("model.layers.0.self_attn.q_norm"));
    QCOMPARE(sites[1].name, std::string("model.layers.0.self_attn.k_norm"));
    QCOMPARE(sites[0].rule, std::string("model.layers.*.self_attn.q_norm"));
    QCOMPARE(sites[0].span.line, 0);
    QCOMPARE(sites[0].parameters,
             std::vector<std::string>{"model.layers.0.self_attn.q_norm.weight"});
    QVERIFY(std::ranges::is_sorted(sites, {}, &HookSite::module));
    const ModelDescription llama = model("llama");
    QVERIFY(hookSites(llama, planOf(llama, ""), HookMode::ModuleBackward).empty());
}

void HookSitesTest::everyModeSaysWhatItDoes() {
    const ModelDescription qwen3 = model("qwen3");
    const ResolvedPlan plan = planOf(qwen3, "");
    QVERIFY(hookSites(qwen3, plan, HookMode::None).empty());
    const HookSite module = hookSites(qwen3, plan, HookMode::ModuleBackward).front();
    QVERIFY(module.breaksGraph && module.registeredUnderNoGrad);
    const HookSite post = hookSites(qwen3, plan, HookMode::PostAccumulateGrad).front();
    QVERIFY(!post.breaksGraph && !post.registeredUnderNoGrad);
    const HookSite tensor = hookSites(qwen3, plan, HookMode::TensorGrad).front();
    QVERIFY(!tensor.breaksGraph && tensor.registeredUnderNoGrad);
}

void HookSitesTest::aRuleOfTheFileHasItsLine() {
    const ModelDescription qwen3 = model("qwen3");
    const auto sites = hookSites(qwen3,
                                 planOf(qwen3, "# norms\ntp_plan:\n"
                                               "  model.layers.*.self_attn.k_norm: replicate\n"
                                               "  model.layers.*.self_attn.q_norm: replicate\n"
                                               "  model.norm: replicated_with_grad_allreduce\n"),
                                 HookMode::ModuleBackward);
    QCOMPARE(names(sites), std::vector<std::string>{"model.norm"});
    QCOMPARE(sites.front().span.line, 5);
}

void HookSitesTest::modulesWithoutParametersAreHookedAsModulesOnly() {
    const ModelDescription llama = model("llama");
    const ResolvedPlan plan =
        planOf(llama, "tp_plan:\n  model.rotary_emb: replicated_with_grad_allreduce\n");
    QCOMPARE(names(hookSites(llama, plan, HookMode::ModuleBackward)),
             std::vector<std::string>{"model.rotary_emb"});
    QVERIFY(hookSites(llama, plan, HookMode::PostAccumulateGrad).empty());
    QVERIFY(hookSites(llama, plan, HookMode::TensorGrad).empty());
}

void HookSitesTest::aRuleForAParameterHooksNothing() {
    const ModelDescription llama = model("llama");
    const ResolvedPlan plan =
        planOf(llama, "tp_plan:\n  model.norm.weight: replicated_with_grad_allreduce\n");
    QVERIFY(hookSites(llama, plan, HookMode::ModuleBackward).empty());
}

void HookSitesTest::nothingIsHookedOnOneRank() {
    const ModelDescription qwen3 = model("qwen3");
    QVERIFY(hookSites(qwen3, planOf(qwen3, "", 1), HookMode::ModuleBackward).empty());
}

QTEST_APPLESS_MAIN(HookSitesTest)
#include "hooksitestest.moc"
