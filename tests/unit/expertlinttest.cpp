// SPDX-License-Identifier: GPL-3.0-or-later
// Expert parallelism in plan files and configs: what is said, where, and how it is mended.
#include <QtTest>
#include <algorithm>

#include "../support/recordedmodels.h"
#include "lint/codes.h"
#include "plan/planwriter.h"

using namespace tpscope;
using nlohmann::json;
using recorded::Subject;

namespace {

constexpr const char *experts = "model.layers.*.mlp.experts";

std::string told(const LintReport &report) {
    std::string out(name(report.outcome));
    for (const Diagnostic &d : report.diagnostics)
        out += "\n  " + d.code + " line " + std::to_string(d.span.line) + " " + d.message +
               (d.fix ? " FIX " + d.fix->title : "");
    return out;
}

const Diagnostic *find(const LintReport &report, std::string_view code) {
    const auto found = std::ranges::find(report.diagnostics, code, &Diagnostic::code);
    return found == report.diagnostics.end() ? nullptr : &*found;
}

std::string applied(std::string text, const Fix &fix) {
    for (auto edit = fix.edits.rbegin(); edit != fix.edits.rend(); ++edit)
        text = applyEdit(text, *edit);
    return text;
}

LintReport lintEp(const Subject &subject, const std::string &text, int ep, int tp = 2) {
    PlanChoice choice = text.empty() ? PlanChoice() : recorded::choiceOf(text);
    choice.ep = ep;
    LintOptions options;
    options.train = true;
    return lint(subject.model, choice, &subject.builtin, tp, options);
}

std::string plan(const std::string &expertRules, const std::string &head = "tp_plan: auto\n") {
    return head + "ep_plan:\n" + expertRules;
}

} // namespace

class ExpertLintTest : public QObject {
    Q_OBJECT
private slots:
    void unevenExpertsAreRefused();
    void expertStyleInTheTpPlan();
    void aFixGoesIntoTheEpPlan_data();
    void aFixGoesIntoTheEpPlan();
    void sizesThatFit();
    void sizesThatDoNotFit_data();
    void sizesThatDoNotFit();
    void sizeFromTheFile();
    void epPlanWithoutASize();
    void epRulesTakeModulesOutOfTheTpPlan();
    void configsOwnPlan();
    void duplicateKeys();
    void ranksHoldWholeExperts();
    void writersKeepTheSize();
    void editsOfTheEpPlan();
};

// CASES row 21.
void ExpertLintTest::unevenExpertsAreRefused() {
    const auto subject = recorded::load("mixtral", {{"num_local_experts", 3}});
    const LintReport report = lintEp(*subject, {}, 2);
    QCOMPARE(report.outcome, Outcome::Rejected);
    const Diagnostic *finding = find(report, code::refusedStyle);
    QVERIFY2(finding && finding->message.find("3 experts are not divisible by 2 ranks") != std::string::npos,
             told(report).c_str());
    QVERIFY(finding->fix && finding->fix->title.find("1, 3") != std::string::npos);
    QCOMPARE(finding->modules, std::vector<std::string>{experts});
    QCOMPARE(report.validTpSizes, std::vector<int>{1}); // 3 would divide the experts and not the heads
    const std::string text = plan(std::string("  ") + experts + ".down_proj: grouped_gemm # mine\n");
    const LintReport written = lintEp(*subject, text, 2);
    QVERIFY(std::ranges::any_of(written.diagnostics, [](const Diagnostic &d) { return d.span.line == 3; }));
}

// CASES row 25.
void ExpertLintTest::expertStyleInTheTpPlan() {
    const auto subject = recorded::load("mixtral");
    const std::string text = "tp_plan:\n  " + std::string(experts) + ".gate_up_proj: grouped_gemm\n  " + experts +
                             ".down_proj: grouped_gemm\n";
    const LintReport report = lintEp(*subject, text, 1);
    QCOMPARE(report.outcome, Outcome::WrongLogits);
    const Diagnostic *finding = find(report, code::expertStyle);
    QVERIFY2(finding && finding->span.line == 2 && finding->fix && !finding->fix->edits.empty(), told(report).c_str());
    std::string repaired = text;
    for (int i = 0; i < 2; ++i)
        if (const LintReport again = lintEp(*subject, repaired, 1);
            const Diagnostic *d = find(again, code::expertStyle))
            repaired = applied(repaired, *d->fix);
    QVERIFY2(lintEp(*subject, repaired, 1).outcome == Outcome::Ok, repaired.c_str());
    // The same rules are right where they belong.
    QCOMPARE(lintEp(*subject, plan(text.substr(text.find('\n') + 1)), 2).outcome, Outcome::Ok);
}

void ExpertLintTest::aFixGoesIntoTheEpPlan_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("rules");
    QTest::addColumn<QString>("outcome");
    QTest::addColumn<QString>("code");
    const auto row = [](const char *what, const char *model, const std::string &rules, const char *outcome,
                        std::string_view code) {
        QTest::newRow(what) << model << QString::fromStdString(rules) << outcome << QString::fromUtf8(code.data());
    };
    const std::string e = std::string("  ") + experts;
    row("one weight whole", "qwen3_moe", e + ".down_proj: replicate # why\n", "forward-error", code::expertCount);
    row("a bias whole", "gpt_oss", e + ".down_proj_bias: replicate\n", "wrong-logits", code::expertCount);
    row("cut within experts", "qwen3_moe", e + ".gate_up_proj: packed_colwise\n" + e + ".down_proj: rowwise\n",
        "wrong-logits", code::expertShards);
    row("all experts everywhere", "qwen3_moe", e + ".gate_up_proj: replicate\n" + e + ".down_proj: replicate\n",
        "wrong-gradients", code::gradientShare);
    row("unknown style", "qwen3_moe", e + ": ep_dispatch_expert\n", "rejected", code::unknownStyle);
    row("removed style", "qwen3_moe", e + ": moe_tp_experts\n", "rejected", code::removedEpStyle);
    row("missing prefix", "qwen3_moe", "  layers.*.mlp.experts: ep_dispatch_experts\n", "rejected",
        code::missingPrefix);
    row("a router cut by experts", "qwen3_moe", "  model.layers.*.mlp.gate: packed_colwise\n", "wrong-logits",
        code::expertCount);
    row("a norm needs no sum", "qwen3_moe", "  model.norm: replicated_with_grad_allreduce\n", "wrong-gradients",
        code::gradientRepeated);
}

void ExpertLintTest::aFixGoesIntoTheEpPlan() {
    QFETCH(QString, model);
    QFETCH(QString, rules);
    QFETCH(QString, outcome);
    QFETCH(QString, code);
    const auto subject = recorded::load(model.toStdString());
    const std::string text = plan(rules.toStdString());
    const LintReport report = lintEp(*subject, text, 2);
    QVERIFY2(name(report.outcome) == outcome.toStdString(), told(report).c_str());
    const Diagnostic *finding = find(report, code.toStdString());
    QVERIFY2(finding && finding->span.line >= 3 && finding->fix && !finding->fix->edits.empty(), told(report).c_str());
    const std::string repaired = applied(text, *finding->fix);
    const LintReport again = lintEp(*subject, repaired, 2);
    QVERIFY2(again.outcome == Outcome::Ok, (repaired + told(again)).c_str());
    QVERIFY(rules.contains("# why") == (repaired.find("# why") != std::string::npos));
}

void ExpertLintTest::sizesThatFit() {
    for (const auto &[model, sizes] : {std::pair{"qwen3_moe", std::vector<int>{1, 2}},
                                       std::pair{"qwen3_moe_kv4", std::vector<int>{1, 2, 4}},
                                       std::pair{"deepseek_v3", std::vector<int>{1, 2, 4}}}) {
        const auto subject = recorded::load(model);
        const LintReport report = lintEp(*subject, {}, 2);
        QVERIFY2(report.outcome == Outcome::Ok && report.errors() == 0, told(report).c_str());
        QCOMPARE(report.validTpSizes, sizes);
    }
}

void ExpertLintTest::sizesThatDoNotFit_data() {
    QTest::addColumn<int>("ep");
    QTest::addColumn<int>("tp");
    QTest::addColumn<QString>("says");
    QTest::newRow("no multiple") << 3 << 2 << "multiple of tp_size";
    QTest::newRow("more than the ranks") << 4 << 2 << "without FSDP";
    QTest::newRow("one rank") << 2 << 1 << "without FSDP";
    QTest::newRow("none") << 0 << 2 << "at least 1";
}

void ExpertLintTest::sizesThatDoNotFit() {
    QFETCH(int, ep);
    QFETCH(int, tp);
    QFETCH(QString, says);
    const auto subject = recorded::load("qwen3_moe");
    const LintReport report = lintEp(*subject, {}, ep, tp);
    QVERIFY2(report.outcome == Outcome::Rejected && find(report, code::badEpSize), told(report).c_str());
    const std::string &message = find(report, code::badEpSize)->message;
    QVERIFY2(message.find(says.toStdString()) != std::string::npos, message.c_str());
    const auto dense = recorded::load("llama");
    QVERIFY(find(lintEp(*dense, {}, 2), code::noEpPlan));
}

void ExpertLintTest::sizeFromTheFile() {
    const auto subject = recorded::load("qwen3_moe");
    const auto epOf = [&](const std::string &text, int tp = 2) {
        return resolvePlan(subject->model, recorded::choiceOf(text), &subject->builtin, tp).ep;
    };
    QCOMPARE(epOf("tp_plan: auto\nep_size: 2\n"), 2);
    QCOMPARE(epOf("tp_plan: auto\n"), 1);
    QCOMPARE(epOf("{\"tp_plan\": \"auto\", \"enable_expert_parallel\": true}", 4), 4);
    QCOMPARE(epOf("{\"tp_plan\": \"auto\", \"enable_expert_parallel\": true, \"ep_size\": 1}", 4), 1);
    // The flag alone sets tp_plan={}, which is refused.
    const LintReport report = recorded::lintText(*subject, "{\"enable_expert_parallel\": true}", 2);
    QVERIFY2(report.outcome == Outcome::Rejected && find(report, code::emptyPlan), told(report).c_str());
    const auto wrong = parsePlan("ep_size: two\n", "plan.yaml");
    QVERIFY(!wrong && wrong.error().message.find("ep_size: expected a whole number from 1") != std::string::npos);
}

void ExpertLintTest::epPlanWithoutASize() {
    const auto subject = recorded::load("qwen3_moe");
    const LintReport report = lintEp(*subject, plan(std::string("  ") + experts + ": nonsense\n"), 1);
    // Upstream reads its keys only.
    QVERIFY2(report.outcome == Outcome::Ok && report.errors() == 0, told(report).c_str());
    QVERIFY(find(report, code::epPlanUnused) && find(report, code::epPlanUnused)->span.line == 3);
    QCOMPARE(lintEp(*subject, plan("  nowhere: grouped_gemm\n"), 1).outcome, Outcome::Rejected);
}

void ExpertLintTest::epRulesTakeModulesOutOfTheTpPlan() {
    const auto subject = recorded::load("qwen3_moe");
    PlanChoice choice = recorded::choiceOf(plan("  model.layers.*.self_attn.q_norm: replicate\n"));
    choice.ep = 2;
    const ResolvedPlan resolved = resolvePlan(subject->model, choice, &subject->builtin, 2);
    for (const EffectiveRule &rule : resolved.rules)
        QCOMPARE(rule.dropped, !rule.expert && (rule.rule.key.starts_with(experts) ||
                                                rule.rule.key == "model.layers.*.self_attn.q_norm"));
    const auto style = [&](const std::string &parameter) {
        return std::string(resolved.styleOfParameter(parameter)->name);
    };
    QCOMPARE(style("model.layers.0.mlp.experts.down_proj"), std::string("grouped_gemm"));
    QCOMPARE(style("model.layers.0.self_attn.q_norm.weight"), std::string("replicate"));
    QCOMPARE(style("model.layers.0.self_attn.k_norm.weight"), std::string("replicated_with_grad_allreduce"));
    // Without a rule that dispatches, nothing of the ep plan is applied, and the tp rules are gone all the same.
    const LintReport idle = lintEp(*subject, plan(std::string("  ") + experts + ": replicate\n"), 2);
    QVERIFY2(idle.outcome == Outcome::Ok && find(idle, code::idleEpPlan)->span.line == 3, told(idle).c_str());
    const LintReport twice = lintEp(*subject, plan("  model.layers.*.self_attn.q_proj.weight: colwise\n"), 2);
    QVERIFY2(twice.outcome == Outcome::Rejected && find(twice, code::cutTwice)->span.line == 3, told(twice).c_str());
}

void ExpertLintTest::configsOwnPlan() {
    const json rules = {{"layers.*.mlp.experts", "ep_dispatch_experts"}, {"nope", "grouped_gemm"}};
    const json own = {{"base_model_ep_plan", rules}};
    const auto subject = recorded::load("qwen3_moe", own);
    const LintReport report = lintEp(*subject, {}, 2);
    QVERIFY2(report.outcome == Outcome::WrongGradients && find(report, code::unmatchedInherited), told(report).c_str());
    const auto none = recorded::load("qwen3_moe", {{"base_model_ep_plan", nullptr}});
    QVERIFY(find(lintEp(*none, {}, 2), code::noEpPlan));
    const auto broken = recorded::load("qwen3_moe", {{"base_model_ep_plan", {"a"}}});
    QVERIFY(find(lintEp(*broken, {}, 1), code::brokenConfigPlan));
}

void ExpertLintTest::duplicateKeys() {
    const auto subject = recorded::load("qwen3_moe");
    const std::string key = std::string("  ") + experts + ": ";
    const LintReport report = lintEp(*subject, plan(key + "replicate\n" + key + "ep_dispatch_experts\n"), 2);
    const Diagnostic *finding = find(report, code::duplicateKey);
    QVERIFY2(finding && finding->message.find("3 and 4") != std::string::npos, told(report).c_str());
    QCOMPARE(report.outcome, Outcome::Ok); // the last one counts
}

void ExpertLintTest::ranksHoldWholeExperts() {
    const auto subject = recorded::load("gpt_oss");
    PlanChoice choice;
    choice.ep = 4;
    const ShardLayout layout = shardLayout(subject->model, resolvePlan(subject->model, choice, &subject->builtin, 4));
    int seen = 0;
    for (const ParameterShard &shard : layout.parameters) {
        if (shard.name.find(".mlp.experts.") == std::string::npos)
            continue;
        ++seen;
        QCOMPARE(shard.style, std::string("grouped_gemm"));
        QCOMPARE(shard.rule, genericName(shard.name));
        for (std::size_t rank = 0; rank < 4; ++rank) {
            const auto first = static_cast<std::int64_t>(rank);
            QCOMPARE(shard.held[rank], (std::vector<Interval>{{first, first + 1}}));
        }
    }
    QCOMPARE(seen, 8); // weights and biases of two layers
}

void ExpertLintTest::writersKeepTheSize() {
    const auto subject = recorded::load("mixtral");
    PlanChoice choice;
    choice.ep = 2;
    const ResolvedPlan resolved = resolvePlan(subject->model, choice, &subject->builtin, 2);
    for (const PlanToWrite &written :
         {effectiveRules(subject->model, resolved), ownRules(subject->model, choice, resolved)})
        for (const std::string &text : {toYaml(written), toJson(written)}) {
            const auto document = parsePlan(text, "plan");
            QVERIFY2(document && document->epSize == 2, text.c_str());
            const ResolvedPlan again = resolvePlan(subject->model, recorded::choiceOf(text), &subject->builtin, 2);
            QCOMPARE(again.ep, 2);
            QCOMPARE(again.parameterRule.size(), resolved.parameterRule.size());
            for (const auto &[parameter, rule] : resolved.parameterRule)
                QCOMPARE(again.styleOfParameter(parameter), resolved.styleOfParameter(parameter));
        }
    QVERIFY(toPython(ownRules(subject->model, choice, resolved), {"m"}).find("ep_size=2") != std::string::npos);
}

void ExpertLintTest::editsOfTheEpPlan() {
    const std::string text = "tp_plan:\n  a: colwise\nep_plan:\n  b: replicate # b\n";
    const auto document = parsePlan(text, "plan.yaml");
    QCOMPARE(applyEdit(text, setStyleEdit(*document, 0, "grouped_gemm", PlanPart::Ep)),
             std::string("tp_plan:\n  a: colwise\nep_plan:\n  b: grouped_gemm # b\n"));
    QCOMPARE(applyEdit(text, renameKeyEdit(*document, 0, "c", PlanPart::Ep)),
             std::string("tp_plan:\n  a: colwise\nep_plan:\n  c: replicate # b\n"));
    QCOMPARE(applyEdit(text, addRuleEdit(*document, "c", "grouped_gemm", PlanPart::Ep)),
             std::string("tp_plan:\n  a: colwise\nep_plan:\n  b: replicate # b\n  c: grouped_gemm\n"));
    const std::string without = "tp_plan:\n  a: colwise\n";
    QCOMPARE(applyEdit(without, addRuleEdit(*parsePlan(without, "plan.yaml"), "c", "grouped_gemm", PlanPart::Ep)),
             std::string("tp_plan:\n  a: colwise\nep_plan:\n  c: grouped_gemm\n"));
}

QTEST_APPLESS_MAIN(ExpertLintTest)
#include "expertlinttest.moc"
