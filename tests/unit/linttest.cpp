// SPDX-License-Identifier: GPL-3.0-or-later
// What lint says of the troubles people report: code, line, modules, and a fix that mends it.
#include <QtTest>
#include <algorithm>
#include <chrono>
#include <set>

#include "../support/recordedmodels.h"
#include "base/resources.h"
#include "lint/codes.h"

using namespace tpscope;
using nlohmann::json;
using recorded::lintText;
using recorded::Subject;

namespace {

constexpr const char *attention = "model.layers.*.self_attn.";
constexpr const char *mlp = "model.layers.*.mlp.";

std::string rule(const std::string &key, const std::string &style) { return "  " + key + ": " + style + "\n"; }

std::string plan(const std::string &rules, const std::string &head = {}) { return head + "tp_plan:\n" + rules; }

std::string told(const LintReport &report) {
    std::string out(name(report.outcome));
    for (const Diagnostic &d : report.diagnostics) {
        out += "\n  " + std::string(name(d.severity)) + " " + d.code + " line " + std::to_string(d.span.line) + " " +
               d.message;
        if (d.fix)
            out += "\n    fix: " + d.fix->title;
    }
    return out;
}

const Diagnostic *find(const LintReport &report, std::string_view code) {
    const auto found = std::ranges::find(report.diagnostics, code, &Diagnostic::code);
    return found == report.diagnostics.end() ? nullptr : &*found;
}

int count(const LintReport &report, std::string_view code) {
    return static_cast<int>(std::ranges::count(report.diagnostics, code, &Diagnostic::code));
}

std::string applied(std::string text, const Fix &fix) {
    for (auto edit = fix.edits.rbegin(); edit != fix.edits.rend(); ++edit)
        text = applyEdit(text, *edit);
    return text;
}

LintOptions training() {
    LintOptions options;
    options.train = true;
    return options;
}

} // namespace

// One row of the reported troubles: a plan, and what must be said.
struct Trouble {
    const char *title;
    const char *model;
    json config; // changes
    int tp;
    std::string text; // "" the built-in plan
    bool train;
    Outcome outcome;
    std::string_view code;
    int line;         // of the finding, 0 none
    bool mends;       // its fix, applied, makes the plan right
};
Q_DECLARE_METATYPE(const Trouble *)

namespace {

const std::vector<Trouble> &troubles() {
    const std::string a = attention, m = mlp;
    static const std::vector<Trouble> rows = {
        {"1 kv heads 1", "llama", {{"num_key_value_heads", 1}}, 2, plan(rule("lm_head", "colwise_gather_output")), false,
         Outcome::ForwardError, code::kvHeadsCut, 0, true},
        {"2 heads 28, kv 4, tp 8", "llama",
         {{"num_attention_heads", 28}, {"num_key_value_heads", 4}, {"hidden_size", 448}, {"head_dim", 16}}, 8, "", false,
         Outcome::ForwardError, code::headsCut, 0, false},
        {"3 kv 2, tp 4", "llama", {}, 4, "", false, Outcome::ForwardError, code::kvHeadsCut, 0, false},
        {"4 vocab 257", "llama", {{"vocab_size", 257}}, 2, "", false, Outcome::Ok, code::uneven, 0, false},
        {"6 no lm_head rule", "llama", {}, 2, plan(rule(m + "gate_proj", "replicate"), "base: none\n"), false,
         Outcome::Ok, code::wholeHead, 0, true},
        {"7 tied, embedding whole", "llama_tied", {}, 2, plan(rule("model.embed_tokens", "replicate")), false,
         Outcome::ForwardError, code::tiedApart, 2, true},
        {"8 tied, head whole", "llama_tied", {}, 2, plan(rule("lm_head", "replicate")), false, Outcome::ForwardError,
         code::tiedApart, 2, true},
        {"13 prefix", "llama", {}, 2, plan(rule("layers.*.mlp.up_proj", "colwise")), false, Outcome::Rejected,
         code::missingPrefix, 2, true},
        {"typo", "llama", {}, 2, plan(rule(m + "up_porj", "colwise")), false, Outcome::Rejected, code::unmatchedKey, 2,
         true},
        {"16 q_norm whole", "qwen3", {}, 2, plan(rule(a + "q_norm", "replicate")), true, Outcome::WrongGradients,
         code::gradientShare, 2, true},
        {"17 norm summed", "llama", {}, 2,
         plan(rule("model.layers.*.input_layernorm", "replicated_with_grad_allreduce")), true, Outcome::WrongGradients,
         code::gradientRepeated, 2, true},
        {"20 all_reduce on mlp", "llama", {}, 2, plan(rule("model.layers.*.mlp", "all_reduce")), false,
         Outcome::WrongLogits, code::reducedTwice, 2, true},
        {"20 moe_tp_experts on mlp", "llama", {}, 2, plan(rule("model.layers.*.mlp", "moe_tp_experts")), false,
         Outcome::WrongLogits, code::reducedTwice, 2, true},
        {"20 moe_identity_expert on mlp", "llama", {}, 2, plan(rule("model.layers.*.mlp", "moe_identity_expert")), false,
         Outcome::WrongLogits, code::reducedTwice, 2, true},
        {"22 o_proj colwise", "llama", {}, 2, plan(rule(a + "o_proj", "colwise")), false, Outcome::ForwardError,
         code::layoutsApart, 2, true},
        {"22 o_proj replicate", "llama", {}, 2, plan(rule(a + "o_proj", "replicate")), false, Outcome::ForwardError,
         code::layoutsApart, 2, true},
        {"23 gate replicate", "llama", {}, 2, plan(rule(m + "gate_proj", "replicate")), false, Outcome::ForwardError,
         code::operandsApart, 2, true},
        {"23 gate gathered", "llama", {}, 2, plan(rule(m + "gate_proj", "colwise_gather_output")), false,
         Outcome::ForwardError, code::operandsApart, 2, true},
        {"24 up packed", "llama", {}, 2, plan(rule(m + "up_proj", "packed_colwise")), false, Outcome::WrongLogits,
         code::packedWeight, 2, true},
        {"26 k whole", "llama", {}, 2, plan(rule(a + "k_proj", "replicate")), false, Outcome::WrongLogits,
         code::headsApart, 2, true},
        {"26 k and v gathered", "llama", {}, 2,
         plan(rule(a + "k_proj", "colwise_gather_output") + rule(a + "v_proj", "colwise_gather_output")), false,
         Outcome::WrongLogits, code::headsApart, 3, true},
        {"27 lm_head colwise", "llama", {}, 2, plan(rule("lm_head", "colwise")), false, Outcome::WrongLogits,
         code::partOfOutput, 2, true},
        {"28 mla without key", "llama", {}, 2, plan(rule(a + "k_proj", "mla_kv_a_proj")), false, Outcome::ForwardError,
         code::missingKey, 2, false},
        {"31 duplicate", "llama", {}, 2,
         plan(rule(m + "up_proj", "rowwise") + rule("lm_head", "replicate") + rule(m + "up_proj", "colwise")), false,
         Outcome::Ok, code::duplicateKey, 4, false},
        {"32 literal layer", "llama", {}, 2, plan(rule("model.layers.0.mlp.up_proj", "colwise")), false,
         Outcome::Rejected, code::literalLayer, 2, true},
        {"34 empty plan", "llama", {}, 2, "tp_plan: {}\n", false, Outcome::Rejected, code::emptyPlan, 0, false},
        {"39 kv 1, k and v whole", "llama_kv1", {}, 2,
         plan(rule(a + "k_proj", "replicate") + rule(a + "v_proj", "replicate")), true, Outcome::WrongGradients,
         code::sharedHeads, 3, true},
        {"44 norm weight sharded", "llama", {}, 2, plan(rule("model.layers.*.input_layernorm.weight", "colwise")), false,
         Outcome::ForwardError, code::mixedTensors, 2, true},
        {"keywords", "llama", {}, 2, plan(rule("model.layers.*.self_attn", "moe_tp_experts")), false,
         Outcome::ForwardError, code::callForm, 2, true},
        {"tuple", "llama", {}, 2, plan(rule("model.layers.*.self_attn", "all_reduce")), false, Outcome::ForwardError,
         code::callForm, 2, true},
        {"refused", "llama", {}, 2, plan(rule("model.embed_tokens", "colwise")), false, Outcome::Rejected,
         code::refusedStyle, 2, true},
        {"whole bias in training", "llama_bias", {}, 2, plan(rule(m + "down_proj.bias", "replicate")), true,
         Outcome::WrongGradients, code::wholeInTraining, 2, false},
    };
    return rows;
}

} // namespace

class LintTest : public QObject {
    Q_OBJECT
private slots:
    void codesAreStable();
    void reportedTroubles_data();
    void reportedTroubles();
    void everyUnknownStyleInOneReport();
    void duplicateNamesBothLines();
    void edgeShowsBothSides();
    void validSizes();
    void biasAndKeyWithoutDot();
    void attentionDecides();
    void slidingWindow();
    void trainingOnlyIsAWarningOtherwise();
    void accumulation();
    void moduleHooks();
    void configPlans();
    void sizesAndPlansNoLoadTakes();
    void unknownFlowIsNeverOk();
    void readyMadeModelsAreFine();
    void fastEnough();
};

void LintTest::codesAreStable() {
    std::set<std::string_view> seen;
    for (const CodeInfo &info : codes()) {
        QVERIFY2(info.code.size() == 5 && info.code.starts_with("TP"), info.code.data());
        QVERIFY2(seen.insert(info.code).second, info.code.data());
        QVERIFY(!info.title.empty() && !info.what.empty() && !info.why.empty() && !info.fix.empty());
        QCOMPARE(findCode(info.code), &info);
    }
    QVERIFY(std::ranges::is_sorted(codes(), {}, &CodeInfo::code));
    QCOMPARE(findCode("TP999"), nullptr);
}

void LintTest::reportedTroubles_data() {
    QTest::addColumn<const Trouble *>("trouble");
    for (const Trouble &trouble : troubles())
        QTest::newRow(trouble.title) << &trouble;
}

void LintTest::reportedTroubles() {
    QFETCH(const Trouble *, trouble);
    const auto subject = recorded::load(trouble->model, trouble->config.is_null() ? json::object() : trouble->config);
    QVERIFY(subject);
    LintOptions options;
    options.train = trouble->train;
    const auto run = [&](const std::string &text) {
        return text.empty() ? lint(subject->model, {}, &subject->builtin, trouble->tp, options)
                            : lintText(*subject, text, trouble->tp, options);
    };
    const LintReport report = run(trouble->text);
    QVERIFY2(report.outcome == trouble->outcome, told(report).c_str());
    const Diagnostic *finding = find(report, trouble->code);
    QVERIFY2(finding, told(report).c_str());
    QVERIFY2(finding->severity == findCode(trouble->code)->severity, told(report).c_str());
    if (trouble->line > 0)
        QVERIFY2(finding->span.line == trouble->line, told(report).c_str());
    if (!trouble->mends)
        return;
    QVERIFY2(finding->fix && !finding->fix->edits.empty(), told(report).c_str());
    const std::string mended = applied(trouble->text, *finding->fix);
    const LintReport after = run(mended);
    QVERIFY2(after.outcome == Outcome::Ok && after.errors() == 0 && !find(after, trouble->code),
             (mended + told(after)).c_str());
}

void LintTest::everyUnknownStyleInOneReport() {
    const auto subject = recorded::load("llama");
    const std::string text = plan(rule(std::string(attention) + "q_proj", "Colwise") +
                                  rule(std::string(attention) + "k_proj", "\"colwise \"") +
                                  rule(std::string(attention) + "v_proj", "columnwise") +
                                  rule(std::string(attention) + "o_proj", "3") +
                                  rule(std::string(mlp) + "up_proj", "null") +
                                  rule(std::string(mlp) + "down_proj", "[rowwise]"));
    const LintReport report = lintText(*subject, text, 2);
    QCOMPARE(report.outcome, Outcome::Rejected);
    QCOMPARE(count(report, code::unknownStyle), 6);
    int line = 2;
    for (const Diagnostic &d : report.diagnostics) {
        if (d.code != code::unknownStyle)
            continue;
        QVERIFY2(d.span.line == line++, told(report).c_str());
        const bool readable = line <= 5; // the first three name something near
        QVERIFY2(!readable || (d.fix && d.message.find("nearest: colwise") != std::string::npos), told(report).c_str());
    }
    const Diagnostic &first = *find(report, code::unknownStyle);
    for (const ParallelStyle &style : parallelStyles())
        QVERIFY2(first.message.find(style.name) != std::string::npos, first.message.c_str());
}

void LintTest::duplicateNamesBothLines() {
    const auto subject = recorded::load("llama");
    const LintReport report =
        lintText(*subject, plan(rule("lm_head", "replicate") + rule("lm_head", "colwise_gather_output")), 2);
    const Diagnostic *finding = find(report, code::duplicateKey);
    QVERIFY2(finding, told(report).c_str());
    QVERIFY2(finding->message.find("2 and 3") != std::string::npos, finding->message.c_str());
    QCOMPARE(report.outcome, Outcome::Ok);
}

void LintTest::edgeShowsBothSides() {
    const auto subject = recorded::load("llama");
    const LintReport report = lintText(*subject, plan(rule(std::string(mlp) + "down_proj", "replicate")), 2);
    const Diagnostic *finding = find(report, code::layoutsApart);
    QVERIFY2(finding, told(report).c_str());
    for (const char *part : {"mlp.down_proj` (replicate)", "(colwise)", "64 of 128", "all 128"})
        QVERIFY2(finding->message.find(part) != std::string::npos, finding->message.c_str());
    QVERIFY(std::ranges::find(finding->modules, "model.layers.*.mlp.down_proj") != finding->modules.end());
    // Independent troubles are told in one report.
    const LintReport both = lintText(*subject,
                                     plan(rule(std::string(mlp) + "down_proj", "replicate") +
                                          rule(std::string(attention) + "o_proj", "replicate")),
                                     2);
    QVERIFY2(count(both, code::layoutsApart) == 2, told(both).c_str());
}

void LintTest::validSizes() {
    const auto subject = recorded::load(
        "llama", {{"num_attention_heads", 28}, {"num_key_value_heads", 4}, {"hidden_size", 448}, {"head_dim", 16}});
    const LintReport report = lint(subject->model, {}, &subject->builtin, 8);
    QCOMPARE(report.validTpSizes, (std::vector<int>{1, 2, 4}));
    const Diagnostic *finding = find(report, code::headsCut);
    QVERIFY2(finding && finding->message.find("1, 2, 4") != std::string::npos, told(report).c_str());
    // Gathered attention runs on any size.
    const auto small = recorded::load("llama");
    std::string rules;
    for (const char *projection : {"q_proj", "k_proj", "v_proj"})
        rules += rule(std::string(attention) + projection, "colwise_gather_output");
    const LintReport gathered = lintText(*small, plan(rules + rule(std::string(attention) + "o_proj", "rowwise_rep")), 3);
    QCOMPARE(gathered.outcome, Outcome::Ok);
    QCOMPARE(gathered.validTpSizes.size(), 64u);
}

void LintTest::biasAndKeyWithoutDot() {
    const auto biased = recorded::load("llama_bias");
    const LintReport report = lint(biased->model, {}, &biased->builtin, 2, training());
    QVERIFY2(report.outcome == Outcome::Ok && report.errors() == 0 && report.warnings() == 0, told(report).c_str());
    QCOMPARE(lintText(*biased, "lm_head: colwise_gather_output\n", 2).outcome, Outcome::Ok);
}

void LintTest::attentionDecides() {
    const auto subject = recorded::load("llama");
    const std::string text = plan(rule(std::string(attention) + "v_proj", "replicate"));
    LintOptions eager;
    eager.attention = "eager";
    QCOMPARE(lintText(*subject, text, 2).outcome, Outcome::WrongLogits);
    QCOMPARE(lintText(*subject, text, 2).attention, std::string("sdpa"));
    const LintReport report = lintText(*subject, text, 2, eager);
    QCOMPARE(report.outcome, Outcome::ForwardError);
    QCOMPARE(report.attention, std::string("eager"));
}

void LintTest::slidingWindow() {
    // Shorter than the prompt of 12 tokens, a window brings a mask, and heads are repeated by the configured count.
    const std::string text = plan(rule(std::string(attention) + "k_proj", "replicate") +
                                  rule(std::string(attention) + "v_proj", "replicate"));
    for (const auto &[window, outcome] : {std::pair{4, Outcome::ForwardError}, {12, Outcome::ForwardError},
                                          {13, Outcome::WrongLogits}}) {
        const auto subject = recorded::load("qwen3", {{"use_sliding_window", true},
                                                      {"sliding_window", window},
                                                      {"layer_types", {"full_attention", "sliding_attention"}}});
        const LintReport report = lintText(*subject, text, 2);
        QVERIFY2(report.outcome == outcome, (std::to_string(window) + told(report)).c_str());
    }
}

void LintTest::trainingOnlyIsAWarningOtherwise() {
    const auto subject = recorded::load("qwen3");
    const std::string text = plan(rule(std::string(attention) + "q_norm", "replicate"));
    const LintReport report = lintText(*subject, text, 2);
    QCOMPARE(report.outcome, Outcome::Ok);
    const Diagnostic *finding = find(report, code::gradientShare);
    QVERIFY2(finding && finding->trainingOnly && finding->severity == Severity::Warning, told(report).c_str());
    QCOMPARE(report.errors(), 0);
    QCOMPARE(lintText(*subject, text, 2, training()).wrongParameters,
             (std::vector<std::string>{"model.layers.0.self_attn.q_norm.weight",
                                       "model.layers.1.self_attn.q_norm.weight"}));
}

void LintTest::accumulation() {
    const auto subject = recorded::load("qwen3");
    LintOptions options = training();
    options.microSteps = 2;
    for (const char *hooks : {"post-accumulate-grad", "module-backward"}) {
        options.hooks = hooks;
        const LintReport report = lint(subject->model, {}, &subject->builtin, 2, options);
        QVERIFY2(report.outcome == Outcome::WrongGradients, told(report).c_str());
        const Diagnostic *finding = find(report, code::accumulation);
        QVERIFY2(finding && finding->message.find("1.5 times") != std::string::npos, told(report).c_str());
        QCOMPARE(report.wrongParameters.size(), 4u);
    }
    options.hooks = "tensor-grad";
    QCOMPARE(lint(subject->model, {}, &subject->builtin, 2, options).outcome, Outcome::Ok);
    const auto llama = recorded::load("llama"); // no hooks in its plan
    options.hooks = "post-accumulate-grad";
    QCOMPARE(lint(llama->model, {}, &llama->builtin, 2, options).outcome, Outcome::Ok);
}

void LintTest::moduleHooks() {
    const auto subject = recorded::load("qwen3");
    LintOptions options = training();
    options.hooks = "module-backward";
    LintReport report = lint(subject->model, {}, &subject->builtin, 2, options);
    QCOMPARE(report.outcome, Outcome::Ok);
    const Diagnostic *finding = find(report, code::hooksBreakGraph);
    QVERIFY2(finding && finding->severity == Severity::Warning, told(report).c_str());
    QCOMPARE(finding->modules, (std::vector<std::string>{"model.layers.*.self_attn.q_norm",
                                                         "model.layers.*.self_attn.k_norm"}));
    // Only the norms trained: the input of layer 0's norms needs no gradient (recorded in grad_sync.json).
    options.trainable = {"q_norm", "k_norm"};
    report = lint(subject->model, {}, &subject->builtin, 2, options);
    QCOMPARE(report.outcome, Outcome::WrongGradients);
    QVERIFY2(find(report, code::hookTooEarly), told(report).c_str());
    QCOMPARE(report.wrongParameters, (std::vector<std::string>{"model.layers.0.self_attn.q_norm.weight",
                                                               "model.layers.0.self_attn.k_norm.weight"}));
    options.hooks = "post-accumulate-grad";
    QCOMPARE(lint(subject->model, {}, &subject->builtin, 2, options).outcome, Outcome::Ok);
    options.hooks = "none";
    options.trainable = {"model.layers.*.self_attn.q_norm"};
    report = lint(subject->model, {}, &subject->builtin, 2, options);
    QCOMPARE(report.outcome, Outcome::WrongGradients);
    QCOMPARE(report.wrongParameters.size(), 2u);
}

void LintTest::configPlans() {
    const auto lost = recorded::load("llama", {{"base_model_tp_plan", {{"h.*.attn.c_attn", "colwise"}}}});
    const LintReport report = lint(lost->model, {}, &lost->builtin, 2);
    QVERIFY2(report.outcome == Outcome::Ok && find(report, code::nothingMatches), told(report).c_str());
    QCOMPARE(report.bytesPerRank.size(), 2u);
    QVERIFY(report.errors() > 0);
    const auto broken = recorded::load("llama", {{"base_model_tp_plan", {"colwise"}}});
    QCOMPARE(lint(broken->model, {}, &broken->builtin, 2).outcome, Outcome::Rejected);
}

void LintTest::sizesAndPlansNoLoadTakes() {
    const auto subject = recorded::load("llama");
    QCOMPARE(lint(subject->model, {}, &subject->builtin, 0).outcome, Outcome::Rejected);
    PlanChoice none;
    none.kind = PlanChoice::Kind::None;
    QCOMPARE(lint(subject->model, none, &subject->builtin, 2).outcome, Outcome::Rejected);
    const LintReport one = lint(subject->model, none, &subject->builtin, 1);
    QVERIFY2(one.outcome == Outcome::Ok && one.warnings() == 1, told(one).c_str());
    // On one rank upstream reads no plan; what is wrong in it is told all the same.
    const LintReport wrong = lintText(*subject, plan(rule("lm_head", "sideways")), 1);
    QCOMPARE(wrong.outcome, Outcome::Ok);
    QCOMPARE(wrong.errors(), 1);
    QCOMPARE(wrong.validTpSizes, std::vector<int>{1});
}

void LintTest::unknownFlowIsNeverOk() {
    auto subject = recorded::load("llama");
    subject->model.programs.clear();
    const LintReport report = lint(subject->model, {}, &subject->builtin, 2);
    QCOMPARE(report.outcome, Outcome::NotChecked);
    QVERIFY(find(report, code::notChecked));
    QVERIFY(report.shardedFraction > 0.9);
    QCOMPARE(lintText(*subject, plan(rule("lm_head", "sideways")), 2).outcome, Outcome::Rejected);
}

void LintTest::readyMadeModelsAreFine() {
    for (const char *name : {"llama-3.1-8b", "qwen3-8b", "qwen3-0.6b"}) {
        const auto path = resourceDir() / "configs" / (std::string(name) + ".json");
        const Subject subject = recorded::describeConfig(recorded::readJson(path), path.string());
        const LintReport report = lint(subject.model, {}, &subject.builtin, 8, training());
        QVERIFY2(report.outcome == Outcome::Ok && report.errors() == 0 && report.warnings() == 0, told(report).c_str());
        QCOMPARE(report.validTpSizes, (std::vector<int>{1, 2, 4, 8}));
    }
}

void LintTest::fastEnough() {
    const auto path = resourceDir() / "configs" / "qwen3-8b.json";
    const Subject subject = recorded::describeConfig(recorded::readJson(path), path.string());
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const LintReport report = lint(subject.model, {}, &subject.builtin, 2);
        best = std::min(best, std::chrono::steady_clock::now() - start);
        QCOMPARE(report.outcome, Outcome::Ok);
    }
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(best).count();
    qInfo("lint of qwen3-8b: %lld us", static_cast<long long>(microseconds));
    QVERIFY2(microseconds < 100'000, "an editor lints while one types");
}

QTEST_APPLESS_MAIN(LintTest)
#include "linttest.moc"
