// SPDX-License-Identifier: GPL-3.0-or-later
#include <QtTest>
#include <filesystem>
#include <set>

#include "../support/recordedmodels.h"

using namespace tpscope;
using nlohmann::json;

class ShardLayoutTest : public QObject {
    Q_OBJECT
private slots:
    void chunksAsTorch();
    void stridedChunks();
    void placementsOfStyles();
    void recordedLayout_data();
    void recordedLayout();
    void bytes();
    void oneRankShardsNothing();
};

void ShardLayoutTest::chunksAsTorch() {
    // REFERENCE section 2: 10/4 -> 3,3,3,1; 5/4 -> 2,2,1,0.
    const std::vector<std::int64_t> ten = {3, 3, 3, 1}, five = {2, 2, 1, 0};
    for (int r = 0; r < 4; ++r) {
        QCOMPARE(chunkOf(10, 4, Rank(r)).size(), ten[static_cast<std::size_t>(r)]);
        QCOMPARE(chunkOf(5, 4, Rank(r)).size(), five[static_cast<std::size_t>(r)]);
    }
    QCOMPARE(chunkOf(5, 4, Rank(3)), (Interval{5, 5}));
}

void ShardLayoutTest::stridedChunks() {
    // torch's own example: 9 elements, split factor 2, 4 chunks -> [0,1,5] [2,3,6] [4,7] [8].
    using Held = std::vector<Interval>;
    QCOMPARE(heldIntervals(9, 4, Rank(0), 2), (Held{{0, 2}, {5, 6}}));
    QCOMPARE(heldIntervals(9, 4, Rank(1), 2), (Held{{2, 4}, {6, 7}}));
    QCOMPARE(heldIntervals(9, 4, Rank(2), 2), (Held{{4, 5}, {7, 8}}));
    QCOMPARE(heldIntervals(9, 4, Rank(3), 2), (Held{{8, 9}}));
}

void ShardLayoutTest::placementsOfStyles() {
    const auto of = [](const char *style, const char *parameter, const Shape &shape) {
        return placementOf(findStyle(style), parameter, shape);
    };
    QCOMPARE(of("colwise", "weight", {8, 4}), (Placement{PlacementKind::Shard, 0, 1}));
    QCOMPARE(of("colwise", "gate_up_proj", {3, 8, 4}), (Placement{PlacementKind::Shard, 1, 1}));
    QCOMPARE(of("colwise", "bias", {8}), (Placement{PlacementKind::Shard, 0, 1}));
    QCOMPARE(of("rowwise", "weight", {8, 4}), (Placement{PlacementKind::Shard, 1, 1}));
    QCOMPARE(of("rowwise", "bias", {8}), (Placement{PlacementKind::Replicate, 0, 1}));
    QCOMPARE(of("rowwise", "sinks", {8}), (Placement{PlacementKind::Shard, 0, 1}));
    QCOMPARE(of("packed_colwise", "weight", {8, 4}), (Placement{PlacementKind::StridedShard, 0, 2}));
    QCOMPARE(of("packed_colwise", "bias", {8}), (Placement{PlacementKind::Shard, 0, 1}));
    QCOMPARE(of("packed_rowwise", "bias", {8}), (Placement{PlacementKind::Replicate, 0, 1}));
    QCOMPARE(of("embedding_colwise", "weight", {8, 4}), (Placement{PlacementKind::Shard, 1, 1}));
    QCOMPARE(of("grouped_gemm", "down_proj", {8, 4, 2}), (Placement{PlacementKind::Shard, 0, 1}));
    QCOMPARE(of("replicate", "weight", {8, 4}), Placement{});
    QCOMPARE(placementOf(nullptr, "weight", {8, 4}), Placement{});
}

void ShardLayoutTest::recordedLayout_data() {
    QTest::addColumn<QString>("file");
    for (const auto &entry : std::filesystem::directory_iterator(recorded::dataDir() / "fixtures" / "sharding"))
        QTest::newRow(entry.path().stem().c_str()) << QString::fromStdString(entry.path().string());
}

void ShardLayoutTest::recordedLayout() {
    QFETCH(QString, file);
    const json truth = recorded::readJson(file.toStdString());
    const auto subject = recorded::load(truth["model"]);
    if (!subject)
        QSKIP("the model's family is not described yet");
    const int tp = truth["tp"];
    const ResolvedPlan plan = resolvePlan(subject->model, {}, &subject->builtin, tp);
    const ShardLayout layout = shardLayout(subject->model, plan);
    std::set<std::string> names, recordedNames;
    for (const ParameterShard &shard : layout.parameters)
        names.insert(shard.name);
    for (const auto &[parameter, value] : truth["parameters"].items())
        recordedNames.insert(parameter);
    QCOMPARE(names, recordedNames);
    for (const auto &[parameter, value] : truth["parameters"].items()) {
        const ParameterShard &shard = *layout.find(parameter);
        const std::string where = parameter + " " + value.dump();
        QVERIFY2(shard.style == (value["style"].is_null() ? "" : value["style"].get<std::string>()), where.c_str());
        const json &placement = value["placement"];
        QVERIFY2(name(shard.placement.kind) == placement["kind"].get<std::string>(), where.c_str());
        if (placement.contains("dim")) {
            const int dims = static_cast<int>(shard.globalShape.size());
            const int dim = placement["dim"];
            QVERIFY2(shard.dim == (dim < 0 ? dim + dims : dim), where.c_str());
        }
        if (placement.contains("split_factor"))
            QVERIFY2(shard.placement.splitFactor == placement["split_factor"], where.c_str());
        QVERIFY2(shard.globalShape == value["global_shape"].get<Shape>(), where.c_str());
        QVERIFY2(shard.localShapes == value["local_shapes"].get<std::vector<Shape>>(), where.c_str());
    }
}

void ShardLayoutTest::bytes() {
    const auto subject = recorded::load("llama_259");
    const ShardLayout layout = shardLayout(subject->model, resolvePlan(subject->model, {}, &subject->builtin, 3));
    std::int64_t total = 0;
    std::vector<std::int64_t> perRank(3, 0);
    for (const ParameterShard &shard : layout.parameters) {
        total += 4 * elementCount(shard.globalShape);
        for (std::size_t r = 0; r < 3; ++r)
            perRank[r] += 4 * elementCount(shard.localShapes[r]);
    }
    QCOMPARE(layout.totalBytes, total);
    QCOMPARE(layout.bytesPerRank, perRank);
    QVERIFY(layout.shardedFraction() > 0.9 && layout.shardedFraction() < 1.0);
}

void ShardLayoutTest::oneRankShardsNothing() {
    const auto subject = recorded::load("qwen3");
    const ShardLayout layout = shardLayout(subject->model, resolvePlan(subject->model, {}, &subject->builtin, 1));
    QCOMPARE(layout.shardedBytes, 0);
    QCOMPARE(layout.bytesPerRank, std::vector<std::int64_t>{layout.totalBytes});
}

QTEST_APPLESS_MAIN(ShardLayoutTest)
#include "shardlayouttest.moc"
