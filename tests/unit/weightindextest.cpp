// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/weightindex.h"

#include <QtTest>

#include "../support/rawsafetensors.h"

using namespace tpscope;
using namespace tpscope::testing;
namespace fs = std::filesystem;

namespace {

template <typename T> QString errorOf(const Result<T> &result) {
    return result ? QStringLiteral("no error") : QString::fromStdString(result.error().text());
}

} // namespace

class WeightIndexTest : public QObject {
    Q_OBJECT
    QTemporaryDir m_folder;

    fs::path file(const std::string &name) const {
        return fs::path(m_folder.path().toStdString()) / name;
    }

private slots:
    void indexes_data() {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QString>("message");
        QTest::newRow("syntax") << QByteArray("{\"weight_map\": {\n") << "no valid JSON";
        QTest::newRow("a list") << QByteArray("[]") << "expected an object with a weight_map";
        QTest::newRow("no map") << QByteArray("{\"metadata\": {\"weight_map\": {\"a\": \"f\"}}}")
                                << "\"weight_map\" is missing";
        QTest::newRow("map a text")
            << QByteArray("{\"weight_map\": \"f\"}") << "weight_map: expected an object";
        QTest::newRow("empty map") << QByteArray("{\"weight_map\": {}}") << "names no tensor";
        QTest::newRow("map twice")
            << QByteArray("{\"weight_map\": {\"a\":\"f\"}, \"weight_map\": {\"b\":\"f\"}}")
            << "weight_map is given twice";
        QTest::newRow("tensor twice")
            << QByteArray("{\"weight_map\": {\"a\":\"f\",\"b\":\"f\",\"a\":\"g\"}}")
            << "weight_map names tensor \"a\" twice";
        QTest::newRow("file a number") << QByteArray("{\"weight_map\": {\"a\": 3}}")
                                       << "tensor \"a\": expected a file name, found 3";
        QTest::newRow("file a list")
            << QByteArray("{\"weight_map\": {\"a\": [\"f\"]}}") << "found an array";
        QTest::newRow("outside") << QByteArray("{\"weight_map\": {\"a\": \"../f\"}}")
                                 << "outside the model's folder";
        QTest::newRow("outside later")
            << QByteArray("{\"weight_map\": {\"a\": \"x/../../f\"}}") << "outside";
        QTest::newRow("absolute") << QByteArray("{\"weight_map\": {\"a\": \"/etc/passwd\"}}")
                                  << "outside";
        QTest::newRow("no name") << QByteArray("{\"weight_map\": {\"a\": \"\"}}") << "outside";
    }
    void indexes() {
        QFETCH(QByteArray, text);
        QFETCH(QString, message);
        const auto index = readWeightIndex(writeBytes(file("index.json"), text.toStdString()));
        QVERIFY(!index);
        QVERIFY2(errorOf(index).contains(message), qPrintable(errorOf(index)));
    }

    void indexOrder() {
        const auto index = readWeightIndex(
            writeBytes(file("index.json"), R"({"metadata":{"total_size":3,"x":[{"weight_map":1}]},
                                    "weight_map":{"b":"2","a":"1","c":"2"},"more":null})"));
        QVERIFY2(index, qPrintable(errorOf(index)));
        QCOMPARE(index->files, (std::vector<std::string>{"2", "1"}));
        QCOMPARE(index->entries.size(), std::size_t{3});
        QCOMPARE(index->firstTensorOf(1), std::string("a"));
    }

    // Ninety thousand tensors, as the largest published checkpoints have; seconds would mean
    // quadratic work.
    void manyTensors() {
        std::string text = "{\"weight_map\":{";
        for (int i = 0; i < 90000; ++i)
            text += (i ? ",\"" : "\"") + std::string("model.layers.0.mlp.experts.") +
                    std::to_string(i) + ".weight\":\"model-" + std::to_string(i % 163) +
                    ".safetensors\"";
        const fs::path path = writeBytes(file("many.json"), text + "}}");
        QElapsedTimer timer;
        timer.start();
        const auto index = readWeightIndex(path);
        QVERIFY2(index, qPrintable(errorOf(index)));
        QCOMPARE(index->entries.size(), std::size_t{90000});
        QCOMPARE(index->files.size(), std::size_t{163});
        QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
    }
};

QTEST_APPLESS_MAIN(WeightIndexTest)
#include "weightindextest.moc"
