// SPDX-License-Identifier: GPL-3.0-or-later
// The pieces of the layout flow, and the flow itself against plans executed on the real library.
#include <QtTest>
#include <set>

#include "../support/recordedmodels.h"
#include "lint/attentionparts.h"
#include "lint/flowindex.h"
#include "lint/layoutflow.h"

using namespace tpscope;
using nlohmann::json;

namespace {

using Kind = GradientKind;
using State = GradientKind::State;

struct Judged {
    std::string verdict;
    std::set<std::string> wrong;
    std::string story;
};

Judged judge(const recorded::Subject &subject, const PlanChoice &choice, int tp, const std::string &attention) {
    const ResolvedPlan plan = resolvePlan(subject.model, choice, &subject.builtin, tp);
    const LayoutFlow flow(subject.model, plan);
    FlowOptions options;
    options.attention = attention;
    const auto tell = [&](const FlowResult &result, Judged &judged) {
        for (const FlowFinding &finding : result.findings)
            judged.story += " [" + std::to_string(static_cast<int>(finding.cause)) + " " +
                            subject.model.tree.at(finding.module).name + " " + finding.operation + "]";
    };
    Judged judged;
    const FlowResult forward = flow.run(tp, options);
    tell(forward, judged);
    judged.verdict = forward.fails ? "forward-error" : forward.wrongOutput ? "wrong-logits" : "ok";
    if (judged.verdict != "ok")
        return judged;
    options.gradients = options.everyLayer = true;
    const FlowResult backward = flow.run(tp, options);
    tell(backward, judged);
    for (const ParameterGradient &gradient : backward.gradients)
        if (!gradient.final.right())
            judged.wrong.insert(flow.index().parameterNames()[static_cast<std::size_t>(gradient.parameter)]);
    if (backward.fails || backward.wrongOutput || !judged.wrong.empty())
        judged.verdict = "wrong-gradients";
    return judged;
}

} // namespace

class LayoutFlowTest : public QObject {
    Q_OBJECT
private slots:
    void layouts();
    void brokenChannels();
    void layoutTexts();
    void gradientKinds();
    void tapeRunsBackwards();
    void attentionPartsOfQwen3();
    void oneRankIsRight();
    void oneLayerOfAKindIsEnough();
    void executedPlans_data();
    void executedPlans();
};

void LayoutFlowTest::layouts() {
    const Layout full = Layout::full(10, 4);
    QVERIFY(full.isFull() && full.isSame() && !full.isPartition());
    const Layout chunks = Layout::chunked(10, 4);
    QVERIFY(chunks.isPartition() && !chunks.isSame() && !chunks.isFull());
    QCOMPARE(chunks.width(3), 1);
    QVERIFY(full.ownChunk() == chunks);
    QVERIFY(!(chunks == Layout::chunked(12, 4)));
    QVERIFY(Layout::chunked(10, 2).sameWidths(Layout::chunked(10, 2, 2)) == false); // 5,5 against 6,4
    QVERIFY(Layout::chunked(8, 2).sameWidths(Layout::chunked(8, 2, 2)));
    QVERIFY(!(Layout::chunked(8, 2) == Layout::chunked(8, 2, 2)));
    // A chunk of a chunk is no chunk of the whole.
    QVERIFY(!chunks.ownChunk().isPartition());
    const Channels packed = {{0, 2}, {4, 6}};
    QCOMPARE(slice(packed, 1, 3), (Channels{{1, 2}, {4, 5}}));
    QVERIFY(slice(packed, 4, 9).empty());
    QVERIFY(Layout().tracked() == false && Layout() == Layout());
    // Overlapping and incomplete holdings are no partition.
    QVERIFY(!Layout::of(4, {{{0, 3}}, {{2, 4}}}).isPartition());
    QVERIFY(!Layout::of(4, {{{0, 1}}, {{2, 4}}}).isPartition());
    QVERIFY(Layout::of(4, {{{2, 4}}, {{0, 2}}}).isPartition());
}

void LayoutFlowTest::brokenChannels() {
    // Elementwise, only what both sides hold at a position is right; a single channel is broadcast.
    const Channels common = commonChannels({{0, 4}}, {{0, 2}, {6, 8}});
    QCOMPARE(width(common), 4);
    QCOMPARE(common.front(), (Interval{0, 2}));
    QVERIFY(common.back().begin < 0);
    const Channels broadcast = commonChannels({{1, 2}}, {{0, 3}});
    QCOMPARE(slice(broadcast, 1, 2), (Channels{{1, 2}}));
    QVERIFY(slice(broadcast, 0, 1).front().begin < 0 && slice(broadcast, 2, 3).front().begin < 0);
    // Broken channels are no part of any layout, and stay so when they are sliced.
    QVERIFY(!Layout::of(4, {{{0, 2}}, {broken(0, 2)}}).isPartition());
    QVERIFY(!Layout::of(2, {{broken(0, 2)}, {broken(0, 2)}}).isFull());
    for (std::int64_t begin = 0; begin < 5; ++begin)
        for (std::int64_t end = begin + 1; end < 6; ++end)
            QVERIFY(broken(begin, end).size() == end - begin && broken(begin, end).end < 0);
}

void LayoutFlowTest::layoutTexts() {
    QCOMPARE(Layout::full(128, 2).text(), std::string("all 128"));
    QCOMPARE(Layout::chunked(128, 2).text(), std::string("its own 64 of 128"));
    QCOMPARE(Layout::chunked(64, 3).text(), std::string("22, 22, 20 of 64 (by rank)"));
}

void LayoutFlowTest::gradientKinds() {
    const Kind complete = Kind::complete();
    const Kind share{State::Partial, 0, 3};
    QVERIFY(complete.right() && !share.right());
    QVERIFY(allReduced(share).right());
    QCOMPARE(allReduced(complete).power, 1);
    QCOMPARE(sumOf(complete, share).state, State::Wrong);
    QCOMPARE(sumOf(complete, share).cause, 3);
    QVERIFY(sumOf(share, share).state == State::Partial);
    QVERIFY(sumOf(Kind{}, share).state == State::Partial);
    QCOMPARE(ownPart(share).state, State::Wrong);
    QVERIFY(ownPart(complete).right());
    QCOMPARE(contribution(complete, 5).state, State::Partial);
    QCOMPARE(contribution(share, 5).state, State::Wrong);
    QVERIFY(allReduced(Kind::wrongBecause(1)).state == State::Wrong);
}

void LayoutFlowTest::tapeRunsBackwards() {
    GradientTape tape;
    const int first = tape.newSlot(), second = tape.newSlot();
    std::vector<int> order;
    tape.record([&](GradientTape &) { order.push_back(1); });
    tape.record([&](GradientTape &t) {
        order.push_back(2);
        t.add(first, t.at(second));
        t.add(-1, t.at(second));
    });
    tape.set(second, Kind::complete());
    tape.backward();
    QCOMPARE(order, (std::vector<int>{2, 1}));
    QVERIFY(tape.at(first).right());
}

void LayoutFlowTest::attentionPartsOfQwen3() {
    const auto subject = recorded::load("qwen3");
    const ResolvedPlan plan = resolvePlan(subject->model, {}, &subject->builtin, 2);
    const FlowIndex index(subject->model, plan);
    const AttentionParts parts =
        attentionParts(index, *subject->model.tree.indexOf("model.layers.1.self_attn"));
    const auto names = [&](const std::vector<ModuleIndex> &modules) {
        std::vector<std::string> out;
        for (const ModuleIndex module : modules)
            out.push_back(subject->model.tree.at(module).localName);
        return out;
    };
    QCOMPARE(names(parts.projections), (std::vector<std::string>{"q_proj", "k_proj", "v_proj"}));
    QCOMPARE(names(parts.norms), (std::vector<std::string>{"q_norm", "k_norm"}));
    QCOMPARE(names(parts.outputs), (std::vector<std::string>{"o_proj"}));
    QVERIFY(!attentionParts(index, *subject->model.tree.indexOf("model.layers.1.mlp")).found());
}

void LayoutFlowTest::oneRankIsRight() {
    const auto subject = recorded::load("llama");
    const Judged judged = judge(*subject, recorded::choiceOf("lm_head: colwise"), 1, "sdpa");
    QCOMPARE(judged.verdict, std::string("ok"));
}

// The verdict of one layer a kind is that of all layers.
void LayoutFlowTest::oneLayerOfAKindIsEnough() {
    const json rows = recorded::readJson(recorded::dataDir() / "recorded" / "plan_outcomes.json")["plans"];
    for (const json &row : rows) {
        if (row["verdict"] == "rejected")
            continue;
        const std::string name = row["model"];
        const auto subject = recorded::load(name);
        if (!subject)
            continue;
        const PlanChoice choice = recorded::choiceOf(json{{"tp_plan", row["plan"]}}.dump());
        const ResolvedPlan plan = resolvePlan(subject->model, choice, &subject->builtin, row["tp"]);
        const LayoutFlow flow(subject->model, plan);
        FlowOptions some, all;
        all.everyLayer = true;
        const FlowResult a = flow.run(row["tp"], some), b = flow.run(row["tp"], all);
        QVERIFY2(a.fails == b.fails && a.wrongOutput == b.wrongOutput, row.dump().c_str());
    }
}

void LayoutFlowTest::executedPlans_data() {
    QTest::addColumn<int>("index");
    const json rows = recorded::readJson(recorded::dataDir() / "recorded" / "plan_outcomes.json")["plans"];
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i]["verdict"] != "rejected") // load rules are lint's
            QTest::newRow((std::to_string(i) + " " + rows[i]["model"].get<std::string>()).c_str())
                << static_cast<int>(i);
}

void LayoutFlowTest::executedPlans() {
    QFETCH(int, index);
    static const json data = recorded::readJson(recorded::dataDir() / "recorded" / "plan_outcomes.json");
    const json &row = data["plans"][static_cast<std::size_t>(index)];
    const std::string name = row["model"];
    const auto subject = data["configs"].contains(name)
                             ? std::optional(recorded::describeConfig(data["configs"][name], "config.json"))
                             : recorded::load(name);
    QVERIFY2(subject, name.c_str());
    const PlanChoice choice =
        row["plan"].is_object() ? recorded::choiceOf(json{{"tp_plan", row["plan"]}}.dump()) : PlanChoice{};
    const Judged judged = judge(*subject, choice, row["tp"], row.value("attention", "sdpa"));
    const std::string told = row.dump() + " found " + judged.verdict + judged.story;
    QVERIFY2(judged.verdict == row["verdict"], told.c_str());
    if (row.contains("wrong_gradients"))
        QVERIFY2(judged.wrong == row["wrong_gradients"].get<std::set<std::string>>(), told.c_str());
}

QTEST_APPLESS_MAIN(LayoutFlowTest)
#include "layoutflowtest.moc"
