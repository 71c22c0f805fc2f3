// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include <algorithm>
#include <set>

#include "exec/instructions.h"
#include "ranksasthreads.h"

using namespace tpscope;

// The instruction list of a rank: what styles put at the edges of modules, and what is refused.
class LoweringTest : public QObject {
    Q_OBJECT

    static test::Subject open(const char *model) {
        return test::openSubject(std::string(TPSCOPE_TEST_DATA) + "/fixtures/models/" + model);
    }

    static Result<InstructionList> lowered(const test::Subject &subject, int tp, const std::string &rules = {},
                                           bool training = false) {
        PlanChoice choice;
        if (!rules.empty()) {
            choice.kind = PlanChoice::Kind::Document;
            choice.document = test::valueOf(parsePlan("tp_plan:\n" + rules, "test.yaml"));
        }
        const ResolvedPlan plan = subject.plan(tp, choice);
        return lower(subject.model, plan, shardLayout(subject.model, plan), {.training = training});
    }

    static std::ptrdiff_t count(const InstructionList &list, Step step) {
        return std::ranges::count(list.instructions, step, &Instruction::step);
    }

private slots:
    void oneRankHasNoEdges() {
        const auto subject = open("qwen3");
        const auto list = lowered(subject, 1, {}, true);
        QVERIFY(list);
        for (const Instruction &instruction : list->instructions)
            QCOMPARE(instruction.step, Step::Operation);
    }

    void edgesAreThoseOfTheStyles() {
        const auto subject = open("qwen3");
        const auto layers = subject.model.dims.layers;
        const auto list = lowered(subject, 2);
        QVERIFY(list);
        QCOMPARE(count(*list, Step::AllReduce), 2 * layers + 1); // REFERENCE section 2
        QCOMPARE(count(*list, Step::AllGather), 1);
        QCOMPARE(count(*list, Step::EnterHooked), 0);
        const auto training = lowered(subject, 2, {}, true);
        QCOMPARE(count(*training, Step::SumInputGradient), 5 * layers + 1); // q k v gate up, lm_head
        QCOMPARE(count(*training, Step::EnterHooked), 2 * layers);
        QCOMPARE(count(*training, Step::LeaveHooked), 2 * layers);
    }

    void everySlotIsWrittenOnceBeforeItIsRead() {
        const auto subject = open("llama_bias");
        const auto list = lowered(subject, 2);
        QVERIFY(list);
        std::set<int> written{list->ids};
        for (const Instruction &instruction : list->instructions) {
            for (const int slot : instruction.in)
                QVERIFY(slot == Instruction::none || written.contains(slot));
            for (const int slot : instruction.out)
                QVERIFY(written.insert(slot).second);
        }
        QVERIFY(written.contains(list->logits));
        // Each slot but the result dies exactly once, and never before it is read.
        std::multiset<int> dead;
        for (const Instruction &instruction : list->instructions) {
            for (const int slot : instruction.in)
                QVERIFY(!dead.contains(slot));
            dead.insert(instruction.lastUses.begin(), instruction.lastUses.end());
        }
        for (const int slot : written)
            QCOMPARE(dead.count(slot), std::size_t(slot == list->logits ? 0 : 1));
    }

    void aRowwiseBiasIsAddedOnceAfterTheSum() {
        const auto subject = open("llama_bias");
        const auto list = lowered(subject, 2);
        QVERIFY(list);
        for (std::size_t i = 0; i < list->instructions.size(); ++i) {
            const Instruction &instruction = list->instructions[i];
            if (instruction.step != Step::AddBias)
                continue;
            QCOMPARE(list->instructions[i - 1].step, Step::AllReduce);
            const Instruction &product = list->instructions[i - 2];
            QVERIFY(product.operation && product.operation->kind == OpKind::Linear);
            QCOMPARE(product.parameters.at(1), Instruction::none);
            const std::string &bias = list->parameters[std::size_t(instruction.parameters.at(0))];
            QVERIFY2(bias.ends_with(".bias"), bias.c_str());
        }
        QCOMPARE(count(*list, Step::AddBias), 2 * subject.model.dims.layers); // o_proj and down_proj
    }

    void tiedParametersAreOne() {
        const auto subject = open("llama_tied");
        const auto list = lowered(subject, 1);
        QVERIFY(list);
        QVERIFY(std::ranges::find(list->parameters, "lm_head.weight") == list->parameters.end());
        QCOMPARE(std::ranges::count(list->parameters, "model.embed_tokens.weight"), 1);
    }

    void productsOfOneInputAreOne() {
        const auto subject = open("qwen3");
        const auto layers = subject.model.dims.layers;
        const auto list = lowered(subject, 2);
        QVERIFY(list);
        QCOMPARE(count(*list, Step::FusedLinear), 2 * layers);
        QCOMPARE(list->fusedNames.front(), std::string("model.layers.0.self_attn.q_proj+k_proj+v_proj"));
        QCOMPARE(list->fusedNames.back(),
                 "model.layers." + std::to_string(layers - 1) + ".mlp.gate_proj+up_proj");
        QCOMPARE(list->together.size(), list->fusedNames.size());
        QCOMPARE(list->together.front().size(), std::size_t(3));
        // Every weight is still multiplied by exactly once.
        std::multiset<std::string> used;
        for (const Instruction &instruction : list->instructions)
            for (const int parameter : instruction.parameters)
                if (parameter != Instruction::none)
                    used.insert(list->parameters[std::size_t(parameter)]);
        QCOMPARE(used.size(), shardLayout(subject.model, subject.plan(2)).parameters.size());
        QCOMPARE(std::set<std::string>(used.begin(), used.end()).size(), used.size());
    }

    void whatKeepsProductsApart() {
        QCOMPARE(count(*lowered(open("llama_bias"), 2), Step::FusedLinear), 0);
        QCOMPARE(count(*lowered(open("qwen3"), 2, {}, true), Step::FusedLinear), 0);
        // Its own slice of the input: k no longer multiplies what q and v do.
        const auto split = lowered(open("qwen3"), 2, "  model.layers.*.self_attn.k_proj: rowwise_split_input\n");
        QVERIFY(split);
        QCOMPARE(split->fusedNames.front(), std::string("model.layers.0.self_attn.q_proj+v_proj"));
    }

    void whatRaisesUpstreamIsRefused_data() {
        QTest::addColumn<QString>("rule");
        QTest::addColumn<QString>("word");
        QTest::newRow("keywords") << "model.layers.*.self_attn: moe_identity_expert" << "keywords";
        QTest::newRow("tuple") << "model.layers.*.self_attn: all_reduce" << "several";
        QTest::newRow("DTensor") << "model.layers.*.input_layernorm.weight: colwise" << "DTensor";
    }

    void whatRaisesUpstreamIsRefused() {
        QFETCH(QString, rule);
        QFETCH(QString, word);
        const auto subject = open("llama");
        const auto list = lowered(subject, 2, "  " + rule.toStdString() + "\n");
        QVERIFY(!list);
        QCOMPARE(list.error().code, ErrorCode::CannotRun);
        QVERIFY2(list.error().message.find(word.toStdString()) != std::string::npos, list.error().message.c_str());
    }
};

QTEST_APPLESS_MAIN(LoweringTest)
#include "loweringtest.moc"
