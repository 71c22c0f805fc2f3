// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/costmodel.h"

#include <QTest>
#include <algorithm>

#include "session/workspace.h"
#include "shard/shardlayout.h"

using namespace tpscope;

namespace {

struct Subject {
    std::shared_ptr<const Workspace> workspace;
    ResolvedPlan plan;
    ForwardWork work;
};

Subject subject(const std::string &model, int tp, int batch = 1, int tokens = 1) {
    const auto workspace = openWorkspace(model);
    if (!workspace)
        qFatal("%s", workspace.error().text().c_str());
    const ModelDescription &description = (*workspace)->model;
    ResolvedPlan plan = resolvePlan(description, *PlanChoice::parse("auto"), (*workspace)->builtinOrNull(), tp);
    auto work = forwardWork(description, plan, batch, tokens);
    if (!work)
        qFatal("%s", work.error().text().c_str());
    return {*workspace, std::move(plan), std::move(*work)};
}

} // namespace

class CostModelTest : public QObject {
    Q_OBJECT
private slots:
    void initTestCase_data() {
        QTest::addColumn<QString>("model");
        QTest::newRow("tied") << "qwen3-tiny";
        QTest::newRow("untied") << "qwen3-8b";
        QTest::newRow("llama") << "llama-3.1-8b";
    }

    // A token reads each byte of a rank's shards once; of an embedding table (unless it is also the head) one row.
    void aTokenReadsTheShards_data() {
        QTest::addColumn<int>("tp");
        QTest::newRow("tp 1") << 1;
        QTest::newRow("tp 2") << 2;
    }
    void aTokenReadsTheShards() {
        QFETCH_GLOBAL(QString, model);
        QFETCH(int, tp);
        const Subject s = subject(model.toStdString(), tp);
        const ShardLayout layout = shardLayout(s.workspace->model, s.plan);
        for (int rank = 0; rank < tp; ++rank) {
            double shards = 0.0, row = 0.0;
            for (const ParameterShard &shard : layout.parameters) {
                const auto bytes = static_cast<double>(shard.bytes.at(static_cast<std::size_t>(rank)));
                const Shape &local = shard.localShapes.at(static_cast<std::size_t>(rank));
                if (shard.name.find("embed_tokens") == std::string::npos)
                    shards += bytes;
                else
                    row = bytes / static_cast<double>(std::max<std::int64_t>(local.at(0), 1));
                if (shard.name.find("embed_tokens") != std::string::npos && !layout.find("lm_head.weight"))
                    shards += bytes; // tied: the head reads the whole table
            }
            const double read = totals(s.work.of(Rank(rank)), 1).weightBytes;
            QVERIFY2(std::abs(read - shards - row) <= 0.001 * shards,
                     qPrintable(QString("rank %1 reads %2, holds %3").arg(rank).arg(read).arg(shards)));
        }
    }

    // One all-reduce behind each attention, each MLP and the vocabulary-parallel embedding; the logits are gathered.
    void collectivesOfAToken() {
        QFETCH_GLOBAL(QString, model);
        const Subject s = subject(model.toStdString(), 2, 3);
        const auto counts = totals(s.work.of(Rank(0)), 1).collectives;
        const ModelDescription &description = s.workspace->model;
        const auto layers = std::ranges::count_if(description.tree.modules, [](const Module &module) {
            return module.localName == "mlp";
        });
        QCOMPARE(counts.at("all_reduce").count, 2 * layers + 1);
        QCOMPARE(counts.at("all_gather").count, 1);
        const auto none = totals(subject(model.toStdString(), 1).work.of(Rank(0)), 1).collectives;
        QVERIFY(none.empty());
    }

    // A longer context reads more cache and nothing else.
    void theContextCostsCache() {
        QFETCH_GLOBAL(QString, model);
        const Subject s = subject(model.toStdString(), 2);
        const WorkTotals near = totals(s.work.of(Rank(0)), 10), far = totals(s.work.of(Rank(0)), 1000);
        QVERIFY(far.cacheBytes > 50 * near.cacheBytes);
        QCOMPARE(far.weightBytes, near.weightBytes);
        QCOMPARE(far.kernels, near.kernels);
    }
};

QTEST_APPLESS_MAIN(CostModelTest)
#include "costmodeltest.moc"
