// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/weightsource.h"

#include <QCryptographicHash>
#include <QtTest>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "arch/family.h"
#include "base/resources.h"
#include "model/floatconvert.h"
#include "model/randomweights.h"

using namespace tpscope;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(TPSCOPE_TEST_DATA) / "fixtures";

template <typename T> QString errorOf(const Result<T> &result) {
    return result ? QStringLiteral("no error") : QString::fromStdString(result.error().text());
}

// A root module with one child "m" and its parameters; "t.weight" tied to "m.weight" when asked
// for.
ModelDescription smallModel(std::vector<Parameter> parameters, bool tied = false) {
    ModelDescription model;
    const auto root = model.tree.add(std::nullopt, "", "Root");
    const auto child = model.tree.add(root, "m", "Linear");
    model.tree.modules[child.value].parameters = parameters;
    if (tied) {
        const auto target = model.tree.add(root, "t", "Linear");
        model.tree.modules[target.value].parameters = parameters;
        model.tree.ties = {{"t.weight", "m.weight"}};
    }
    return model;
}

std::vector<float> asFloats(const std::vector<std::byte> &bytes) {
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

QString shortHash(const std::vector<std::byte> &bytes) {
    const auto data =
        QByteArray::fromRawData(reinterpret_cast<const char *>(bytes.data()), int(bytes.size()));
    return QString(QCryptographicHash::hash(data, QCryptographicHash::Sha256).toHex()).left(16);
}

// A rank's range of a dimension, from the recorded local shapes alone.
IndexRanges recordedRange(const nlohmann::json &localShapes, std::size_t rank, std::size_t dim) {
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < rank; ++r)
        begin += localShapes[r][dim].get<std::int64_t>();
    return {{begin, begin + localShapes[rank][dim].get<std::int64_t>()}};
}

} // namespace

class WeightSourceTest : public QObject {
    Q_OBJECT
    QTemporaryDir m_folder;

    // A source with these tensors as its checkpoint.
    ModelSource stored(const std::vector<TensorToWrite> &tensors) const {
        ModelSource source;
        source.weightFiles = {fs::path(m_folder.path().toStdString()) / "model.safetensors"};
        [&] { QVERIFY(writeSafetensors(source.weightFiles[0], tensors)); }();
        return source;
    }

private slots:
    // Slices of every recorded rank have the recorded hash, and the bytes counted are those of the
    // slices.
    void slicesOfRecordedRanks_data() {
        QTest::addColumn<QString>("name");
        for (const auto &entry : fs::directory_iterator(fixtures / "sharding"))
            QTest::newRow(entry.path().stem().c_str())
                << QString::fromStdString(entry.path().filename().string());
    }
    void slicesOfRecordedRanks() {
        QFETCH(QString, name);
        const auto recorded =
            nlohmann::json::parse(*readFile(fixtures / "sharding" / name.toStdString()));
        const auto source =
            findModel((fixtures / "models" / recorded.at("model").get<std::string>()).string());
        QVERIFY2(source, qPrintable(errorOf(source)));
        const auto model = describe(*ModelConfig::load(source->configPath.string()));
        if (!model && model.error().code == ErrorCode::Unsupported)
            QSKIP("no description of this family yet");
        QVERIFY2(model, qPrintable(errorOf(model)));
        const auto weights = WeightSource::open(*source, *model, 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        QVERIFY(!weights->isRandom());
        QCOMPARE(weights->bytesCopied(), std::uint64_t{0});
        std::uint64_t expectedBytes = 0;
        for (const auto &[parameter, shard] : recorded.at("parameters").items()) {
            const auto &placement = shard.at("placement");
            const std::string kind = placement.at("kind");
            if (kind == "strided_shard")
                continue;
            for (std::size_t rank = 0; rank < shard.at("hashes").size(); ++rank) {
                int dim = kind == "shard" ? placement.at("dim").get<int>() : -1;
                const auto shape = shard.at("global_shape").get<Shape>();
                if (kind == "shard" && dim < 0)
                    dim += int(shape.size());
                const IndexRanges range =
                    dim < 0 ? IndexRanges()
                            : recordedRange(shard.at("local_shapes"), rank, std::size_t(dim));
                const auto slice = weights->readSlice(parameter, dim, range);
                QVERIFY2(slice, qPrintable(errorOf(slice)));
                QCOMPARE(shortHash(*slice),
                         QString::fromStdString(shard.at("hashes")[rank].get<std::string>()));
                expectedBytes += slice->size();
            }
        }
        QVERIFY(expectedBytes > 0);
        QCOMPARE(weights->bytesCopied(), expectedBytes);
    }

    void slicesByRanges() {
        const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; // [2, 3, 2]
        const auto source =
            stored({{"m.weight", DType::F32, {2, 3, 2}, std::as_bytes(std::span(values))}});
        const auto weights = WeightSource::open(source, smallModel({{"weight", {2, 3, 2}}}), 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        const auto slice = [&](int dim, const IndexRanges &ranges) {
            return asFloats(*weights->readSlice("m.weight", dim, ranges));
        };
        using Floats = std::vector<float>;
        QCOMPARE(slice(-1, {}), values);
        QCOMPARE(slice(0, {{1, 2}}), (Floats{6, 7, 8, 9, 10, 11}));
        QCOMPARE(slice(1, {{2, 3}, {0, 1}}), (Floats{4, 5, 0, 1, 10, 11, 6, 7}));
        QCOMPARE(slice(2, {{1, 2}}), (Floats{1, 3, 5, 7, 9, 11}));
        QCOMPARE(slice(1, {{3, 3}}), Floats());
        QCOMPARE(slice(0, {}), Floats());

        std::vector<std::byte> small(3);
        QVERIFY(errorOf(weights->readSlice("m.weight", -1, {}, small))
                    .contains("48 bytes, the buffer 3"));
        for (const auto &[dim, range] :
             {std::pair{3, std::pair{0, 1}}, {-2, {0, 1}}, {1, {0, 4}}, {1, {-1, 1}}, {1, {2, 1}}})
            QCOMPARE(weights->readSlice("m.weight", dim, {range}).error().code, ErrorCode::Usage);
        QVERIFY(errorOf(weights->readSlice("m.bias", -1, {})).contains("no parameter \"m.bias\""));
    }

    void scalarsAndEmptyTensors() {
        const float one = 1;
        const auto source = stored({{"m.scale", DType::F32, {}, std::as_bytes(std::span(&one, 1))},
                                    {"m.none", DType::F32, {0, 4}, {}}});
        const auto weights =
            WeightSource::open(source, smallModel({{"scale", {}}, {"none", {0, 4}}}), 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        QCOMPARE(asFloats(*weights->readSlice("m.scale", -1, {})), std::vector<float>{1});
        QVERIFY(weights->readSlice("m.none", -1, {})->empty());
        QVERIFY(weights->readSlice("m.none", 1, {{0, 2}})->empty());
    }

    void dtypesAreConverted() {
        const std::vector<float> values{1.0f, 3.1415927f, -65519.0f, 1e-8f};
        const auto source =
            stored({{"m.weight", DType::F32, {4}, std::as_bytes(std::span(values))}});
        const auto weights =
            WeightSource::open(source, smallModel({{"weight", {4}, DType::BF16}}), 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        const auto bytes = *weights->readSlice("m.weight", -1, {});
        QCOMPARE(bytes.size(), std::size_t{8});
        for (std::size_t i = 0; i < values.size(); ++i) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, bytes.data() + 2 * i, 2);
            QCOMPARE(bits, toBfloat16(values[i]));
        }
        QCOMPARE(weights->bytesCopied(), std::uint64_t{16}); // what was read, not what was made
    }

    void mismatches_data() {
        QTest::addColumn<int>("which");
        QTest::addColumn<QString>("message");
        QTest::newRow("missing")
            << 0
            << "tensor \"m.wieght\" is missing from the checkpoint; expected F32 [2]; "
               "the nearest name there is \"m.weight\"";
        QTest::newRow("shape")
            << 1 << "tensor \"m.weight\": expected F32 [3] by the config, found F32 [2]";
        QTest::newRow("rank") << 2 << "expected F32 [2, 1] by the config, found F32 [2]";
        QTest::newRow("dtype") << 3
                               << "tensor \"m.ids\": expected F32 [2] by the config, found I32 [2]";
    }
    void mismatches() {
        QFETCH(int, which);
        QFETCH(QString, message);
        const std::vector<float> values{1, 2};
        const std::vector<std::int32_t> ids{1, 2};
        const auto source = stored({{"m.weight", DType::F32, {2}, std::as_bytes(std::span(values))},
                                    {"m.ids", DType::I32, {2}, std::as_bytes(std::span(ids))}});
        const std::vector<Parameter> wanted{
            {"wieght", {2}}, {"weight", {3}}, {"weight", {2, 1}}, {"ids", {2}}};
        const auto weights =
            WeightSource::open(source, smallModel({wanted[std::size_t(which)]}), 0);
        QVERIFY(!weights);
        QCOMPARE(weights.error().code, ErrorCode::BadInput);
        QVERIFY2(errorOf(weights).contains(message), qPrintable(errorOf(weights)));
    }

    void absurdSizes() {
        const std::int64_t large = std::int64_t{1} << 31;
        const auto weights = WeightSource::open({}, smallModel({{"weight", {large, large, 8}}}), 0);
        QVERIFY2(errorOf(weights).contains("\"m.weight\" [2147483648, 2147483648, 8] is larger"),
                 qPrintable(errorOf(weights)));
        QVERIFY(WeightSource::open({}, smallModel({{"weight", {large, large / 4}}}), 0));
    }

    void integersAsTheyAre() {
        const std::vector<std::int32_t> ids{1, 2};
        const auto source = stored({{"m.ids", DType::I32, {2}, std::as_bytes(std::span(ids))}});
        const auto weights = WeightSource::open(source, smallModel({{"ids", {2}, DType::I32}}), 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        QVERIFY(std::ranges::equal(*weights->readSlice("m.ids", -1, {}),
                                   std::as_bytes(std::span(ids))));
        const auto random = WeightSource::open({}, smallModel({{"ids", {2}, DType::I32}}), 0);
        QVERIFY2(errorOf(random).contains("no random values of dtype int32"),
                 qPrintable(errorOf(random)));
    }

    void tiedParameters() {
        const std::vector<float> values{1, 2}, others{3, 4};
        const ModelDescription model = smallModel({{"weight", {2}}}, true);
        const TensorToWrite source{"m.weight", DType::F32, {2}, std::as_bytes(std::span(values))};
        const TensorToWrite target{"t.weight", DType::F32, {2}, std::as_bytes(std::span(others))};
        const auto both = [&](const std::vector<TensorToWrite> &tensors) {
            const auto weights = WeightSource::open(stored(tensors), model, 0);
            return weights ? std::pair(asFloats(*weights->readSlice("m.weight", -1, {})),
                                       asFloats(*weights->readSlice("t.weight", -1, {})))
                           : std::pair<std::vector<float>, std::vector<float>>();
        };
        QCOMPARE(both({source}), std::pair(values, values));
        QCOMPARE(both({target}), std::pair(others, others)); // tying is symmetric
        QCOMPARE(both({source, target}), std::pair(values, others));

        const auto random = WeightSource::open({}, model, 5);
        QVERIFY(random->isRandom());
        QCOMPARE(*random->readSlice("t.weight", -1, {}), *random->readSlice("m.weight", -1, {}));
    }

    void randomWeights() {
        Parameter weight{"weight", {6, 10}};
        weight.initStd = 0.5;
        weight.initMean = 1.0;
        for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
            weight.dtype = dtype;
            const auto weights = WeightSource::open({}, smallModel({weight}), 99);
            QVERIFY2(weights, qPrintable(errorOf(weights)));
            const auto bytes = *weights->readSlice("m.weight", 1, {{7, 9}, {2, 3}});
            const RandomTensor tensor(99, "m.weight", 1.0, 0.5);
            std::vector<float> expected;
            for (std::uint64_t row = 0; row < 6; ++row)
                for (const std::uint64_t column : {7u, 8u, 2u})
                    expected.push_back(tensor.at(10 * row + column));
            std::vector<std::byte> expectedBytes(bytes.size());
            convertFloats(reinterpret_cast<const std::byte *>(expected.data()), DType::F32,
                          expectedBytes.data(), dtype, expected.size());
            QCOMPARE(bytes, expectedBytes);
            QCOMPARE(weights->bytesCopied(), std::uint64_t{0});
        }
        QVERIFY(*WeightSource::open({}, smallModel({weight}), 1)->readSlice("m.weight", -1, {}) !=
                *WeightSource::open({}, smallModel({weight}), 2)->readSlice("m.weight", -1, {}));
    }

    // Random norms are what the description says: ones.
    void randomModelOfABundledConfig() {
        const auto source = findModel("qwen3-0.6b");
        const auto model = describe(*ModelConfig::load(source->configPath.string()));
        QVERIFY2(model, qPrintable(errorOf(model)));
        const auto weights = WeightSource::open(*source, *model, 0);
        QVERIFY2(weights, qPrintable(errorOf(weights)));
        const auto norm = *weights->readSlice("model.norm.weight", -1, {});
        for (std::size_t i = 0; i < norm.size(); i += 2) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, norm.data() + i, 2);
            QCOMPARE(fromBfloat16(bits), 1.0f);
        }
        QCOMPARE(*weights->readSlice("lm_head.weight", 0, {{100, 101}}),
                 *weights->readSlice("model.embed_tokens.weight", 0, {{100, 101}})); // tied
    }

    void threadsReadAtOnce() {
        const auto source = findModel((fixtures / "models/qwen3").string());
        const auto model = describe(*ModelConfig::load(source->configPath.string()));
        const auto weights = WeightSource::open(*source, *model, 0);
        const auto expected = *weights->readSlice("model.embed_tokens.weight", -1, {});
        std::atomic<int> equal = 0;
        {
            std::vector<std::jthread> threads;
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&] {
                    equal += *weights->readSlice("model.embed_tokens.weight", -1, {}) == expected;
                });
        }
        QCOMPARE(equal.load(), 4);
        QCOMPARE(weights->bytesCopied(), 5 * expected.size());
    }

    void filesThatShrinkOrCannotBeRead() {
        const std::vector<float> values(4096, 1.0f);
        const auto source =
            stored({{"m.weight", DType::F32, {4096}, std::as_bytes(std::span(values))}});
        const auto weights = WeightSource::open(source, smallModel({{"weight", {4096}}}), 0);
        QVERIFY(weights);
        QCOMPARE(::truncate(source.weightFiles[0].c_str(), 100), 0);
        const auto slice = weights->readSlice("m.weight", -1, {});
        QCOMPARE(slice.error().code, ErrorCode::RunFailed);
        QVERIFY2(errorOf(slice).contains("changed its size"), qPrintable(errorOf(slice)));

        ModelSource other;
        other.unreadableWeights =
            Error{ErrorCode::Unsupported, "the weights are in \"pytorch_model.bin\"", {}};
        QCOMPARE(WeightSource::open(other, smallModel({}), 0).error().code, ErrorCode::Unsupported);
    }
};

QTEST_APPLESS_MAIN(WeightSourceTest)
#include "weightsourcetest.moc"
