// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/safetensors.h"

#include <QtTest>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/rawsafetensors.h"
#include "base/resources.h"

using namespace tpscope;
using namespace tpscope::testing;
namespace fs = std::filesystem;

namespace {

template <typename T> QString errorOf(const Result<T> &result) {
    return result ? QStringLiteral("no error") : QString::fromStdString(result.error().text());
}

std::string object(const std::string &inner) { return "{" + inner + "}"; }

// Four floats "a" and two bytes "b".
const std::string goodHeader =
    object(tensorJson("a", "F32", "[2,2]", 0, 16) + "," + tensorJson("b", "U8", "[2]", 16, 18));

} // namespace

class SafetensorsTest : public QObject {
    Q_OBJECT
    QTemporaryDir m_folder;

    fs::path file(const std::string &name) const {
        return fs::path(m_folder.path().toStdString()) / name;
    }
    Result<SafetensorsFile> open(std::string_view bytes) const {
        return SafetensorsFile::open(writeBytes(file("x.safetensors"), bytes));
    }

private slots:
    void readsWhatTheFormatAllows_data() {
        QTest::addColumn<QByteArray>("header");
        QTest::addColumn<int>("dataSize");
        QTest::addColumn<int>("tensors");
        const auto row = [](const char *name, const std::string &header, int size, int tensors) {
            QTest::newRow(name) << QByteArray::fromStdString(header) << size << tensors;
        };
        row("two", goodHeader, 18, 2);
        row("none", "{}", 0, 0);
        row("padded", goodHeader + "     ", 18, 2);
        row("scalar", object(tensorJson("s", "I64", "[]", 0, 8)), 8, 1);
        row("empty tensor", object(tensorJson("e", "F32", "[0,3]", 0, 0)), 0, 1);
        row("empty between",
            object(tensorJson("a", "F32", "[1]", 0, 4) + "," +
                   tensorJson("e", "F32", "[3,0]", 4, 4) + "," +
                   tensorJson("b", "F32", "[1]", 4, 8)),
            8, 3);
        row("any order",
            object(tensorJson("b", "U8", "[2]", 16, 18) + "," +
                   tensorJson("a", "F32", "[2,2]", 0, 16)),
            18, 2);
        row("metadata",
            object("\"__metadata__\":{\"format\":\"pt\"}," + tensorJson("b", "BOOL", "[1]", 0, 1)),
            1, 1);
        row("null metadata", object("\"__metadata__\":null," + tensorJson("b", "I8", "[1]", 0, 1)),
            1, 1);
        row("unknown fields",
            R"({"a":{"note":{"x":[1,{"y":2}]},"dtype":"BF16","more":[[]],
                     "shape":[1],"data_offsets":[0,2]}})",
            2, 1);
        row("empty name", object(tensorJson("", "F16", "[1]", 0, 2)), 2, 1);
    }
    void readsWhatTheFormatAllows() {
        QFETCH(QByteArray, header);
        QFETCH(int, dataSize);
        QFETCH(int, tensors);
        const auto opened =
            open(rawSafetensors(header.toStdString(), static_cast<std::size_t>(dataSize)));
        QVERIFY2(opened, qPrintable(errorOf(opened)));
        QCOMPARE(static_cast<int>(opened->entries().size()), tensors);
        std::size_t total = 0;
        for (const TensorEntry &entry : opened->entries()) {
            QCOMPARE(opened->find(entry.name), &entry);
            total += opened->bytes(entry).size();
        }
        QCOMPARE(total, static_cast<std::size_t>(dataSize));
        QVERIFY(opened->find("no such tensor") == nullptr);
    }

    void refusesTheRest_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("message");
        const auto row = [](const char *name, const std::string &bytes, const char *message) {
            QTest::newRow(name) << QByteArray::fromStdString(bytes) << message;
        };
        const auto header = [&](const char *name, const std::string &text, std::size_t size,
                                const char *message) {
            row(name, rawSafetensors(text, size), message);
        };
        const auto tensor = [&](const char *name, const std::string &fields, std::size_t size,
                                const char *message) {
            header(name, "{\"t\":" + fields + "}", size, message);
        };
        const std::string good = rawSafetensors(goodHeader, 18);
        row("empty file", "", "truncated: it has 0 bytes");
        row("seven bytes", good.substr(0, 7), "truncated: it has 7 bytes");
        row("length only", good.substr(0, 8), "the file is truncated: the header ends at byte");
        row("half a header", good.substr(0, 30), "the file is truncated: the header ends at byte");
        row("half the data", good.substr(0, good.size() - 9),
            "tensor \"a\": bytes 0 to 16 of the data: the file is "
            "truncated, it has 9 bytes of data");
        row("last byte gone", good.substr(0, good.size() - 1), "tensor \"b\": bytes 16 to 18");
        row("one byte more", good + "x",
            "1 bytes at the end of the file belong to no tensor (the last is \"b\")");
        row("header past the end", littleEndian64(1000) + "{}",
            "the header ends at byte 1008, the file has 10 bytes");
        row("absurd length", littleEndian64(~std::uint64_t{0}) + "{}",
            "its header would be 18446744073709551615");
        row("length of 2^63", littleEndian64(std::uint64_t{1} << 63) + "{}",
            "not a safetensors file");
        row("another format", "PK\x03\x04 a zip file as torch.save writes it",
            "not a safetensors file");
        header("no brace", " {}", 0, "does not begin with \"{\"");
        header("empty header", "", 0, "does not begin with \"{\"");
        header("a list", "[1]", 0, "does not begin with \"{\"");
        header("broken JSON", "{\"a\":", 0, "safetensors header: no valid JSON");
        header("rest behind", "{}{}", 0, "safetensors header: no valid JSON");
        header("NUL padding", std::string("{}\0\0", 4), 0,
               "safetensors header: no valid JSON: a NUL byte");
        header("invalid UTF-8", "{\"\xFF\":{}}", 0, "safetensors header: no valid JSON");
        header("deep", "{\"t\":{\"x\":" + std::string(100000, '['), 0, "nested deeper");
        header("tensor a number", "{\"t\":3}", 0, "tensor \"t\": expected an object, found 3");
        header("tensor null", "{\"t\":null}", 0, "tensor \"t\": expected an object, found null");
        header("tensor a list", "{\"t\":[]}", 0,
               "tensor \"t\": expected an object, found an array");
        header("metadata of numbers", "{\"__metadata__\":{\"a\":1}}", 0,
               "expected texts in __metadata__, found 1");
        header("metadata a text", "{\"__metadata__\":\"x\"}", 0, "expected an object, found \"x\"");
        tensor("no dtype", R"({"shape":[1],"data_offsets":[0,4]})", 4,
               "tensor \"t\": its dtype is missing");
        tensor("no shape", R"({"dtype":"F32","data_offsets":[0,4]})", 4, "its shape is missing");
        tensor("no offsets", R"({"dtype":"F32","shape":[1]})", 4, "its data_offsets is missing");
        tensor("unknown dtype", R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})", 4,
               "tensor \"t\": unknown dtype \"F31\"");
        tensor("dtype a number", R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})", 4,
               "expected a name such as");
        tensor("dtype not read", R"({"dtype":"U32","shape":[1],"data_offsets":[0,4]})", 4,
               "dtype U32 is not supported");
        tensor("shape a number", R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", 4,
               "expected an array of numbers");
        tensor("negative", R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4,
               "shape: expected whole numbers");
        tensor("fraction", R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", 4,
               "from 0, found 1.0");
        tensor("text dimension", R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})", 4,
               "from 0, found \"1\"");
        tensor("nested shape", R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})", 4,
               "found an array");
        tensor("huge dimension",
               R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})", 4,
               "is too large");
        tensor("overflowing shape",
               R"({"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,4]})", 4,
               "is larger than any file");
        tensor("product wraps to 4",
               R"({"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]})", 4,
               "is larger than any file");
        tensor("one offset", R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4,
               "expected 2 numbers, found 1");
        tensor("three offsets", R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4,
               "found 3");
        tensor("reversed", R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4,
               "the end stands before the begin");
        tensor("huge offset",
               R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})", 4,
               "truncated");
        tensor("size and shape", R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4,
               "are 4 bytes, F32 [2] needs 8");
        tensor("field twice", R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})",
               4, "tensor \"t\": dtype is given twice");
        header(
            "unaligned",
            object(tensorJson("b", "U8", "[1]", 0, 1) + "," + tensorJson("a", "F32", "[1]", 1, 5)),
            5,
            "tensor \"a\": bytes 1 to 5 of the data: unaligned, F32 [1] must begin at a multiple "
            "of 4");
        header("overlap",
               object(tensorJson("a", "F32", "[2]", 0, 8) + "," +
                      tensorJson("b", "F32", "[2]", 4, 12)),
               12, "tensors \"a\" and \"b\" overlap");
        header(
            "same bytes",
            object(tensorJson("a", "F32", "[1]", 0, 4) + "," + tensorJson("b", "F32", "[1]", 0, 4)),
            4, "tensors \"a\" and \"b\" overlap");
        header("hole in front", object(tensorJson("a", "F32", "[1]", 4, 8)), 8,
               "tensor \"a\": bytes 0 to 4");
        header("hole between",
               object(tensorJson("a", "F32", "[1]", 0, 4) + "," +
                      tensorJson("b", "F32", "[1]", 8, 12)),
               12, "tensor \"b\": bytes 4 to 8 of the data before it belong to no tensor");
        header(
            "duplicate name",
            object(tensorJson("a", "F32", "[1]", 0, 4) + "," + tensorJson("a", "F32", "[1]", 4, 8)),
            8, "tensor \"a\" is in the header twice");
        header("metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
               "\"__metadata__\" is in the header twice");
    }
    void refusesTheRest() {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, message);
        const auto opened = open(bytes.toStdString());
        QVERIFY(!opened);
        const QString error = errorOf(opened);
        QVERIFY2(error.contains(message), qPrintable(error));
        QVERIFY2(error.contains("x.safetensors: "), qPrintable(error));
        QVERIFY2(!error.contains('\n') && error.size() < 400, qPrintable(error));
    }

    void everyPrefixIsRefused() {
        const std::string good = rawSafetensors(goodHeader, 18);
        QVERIFY(open(good));
        for (std::size_t size = 0; size < good.size(); ++size)
            QVERIFY2(!open(good.substr(0, size)), qPrintable(QString::number(size)));
    }

    void filesThatAreNone() {
        QCOMPARE(SafetensorsFile::open(file("none.safetensors")).error().code, ErrorCode::NotFound);
        QVERIFY(errorOf(SafetensorsFile::open(m_folder.path().toStdString()))
                    .contains("is a directory"));
        const fs::path pipe = file("pipe.safetensors");
        QCOMPARE(::mkfifo(pipe.c_str(), 0600), 0);
        QVERIFY(errorOf(SafetensorsFile::open(pipe))
                    .contains("is no regular file")); // and does not wait for a writer
        QVERIFY(errorOf(SafetensorsFile::open("/dev/zero")).contains("is no regular file"));
    }

    void seesAFileThatShrinks() {
        const auto opened = open(rawSafetensors(goodHeader, 18));
        QVERIFY(opened);
        QVERIFY(opened->unchanged());
        QCOMPARE(::truncate(file("x.safetensors").c_str(), 20), 0);
        QVERIFY(!opened->unchanged());
    }

    void writesWhatItReads() {
        const std::vector<float> floats{1.5f, -2.0f, 0.0f, 1e-30f, 3.0f, 4.0f};
        const std::vector<std::uint8_t> bytes{1, 2, 3};
        const std::vector<TensorToWrite> tensors{
            {"small", DType::U8, {3}, std::as_bytes(std::span(bytes))},
            {"logits", DType::F32, {2, 3}, std::as_bytes(std::span(floats))},
            {"none", DType::F64, {0}, {}},
        };
        QVERIFY(writeSafetensors(file("w.safetensors"), tensors));
        const auto opened = SafetensorsFile::open(file("w.safetensors"));
        QVERIFY2(opened, qPrintable(errorOf(opened)));
        for (const TensorToWrite &tensor : tensors) {
            const TensorEntry *entry = opened->find(tensor.name);
            QVERIFY(entry);
            QCOMPARE(entry->dtype, tensor.dtype);
            QCOMPARE(entry->shape, tensor.shape);
            QVERIFY(std::ranges::equal(opened->bytes(*entry), tensor.bytes));
            QCOMPARE(entry->begin % elementSize(tensor.dtype), std::size_t{0});
        }
        QVERIFY(!writeSafetensors(file("w2.safetensors"),
                                  {{"a", DType::F32, {2}, std::as_bytes(std::span(bytes))}}));
        QVERIFY(!writeSafetensors(file("w2.safetensors"), {tensors[0], tensors[0]}));
        QVERIFY(!writeSafetensors(file("w2.safetensors"), {{"\xFF", DType::U8, {0}, {}}}));
        QVERIFY(!fs::exists(file("w2.safetensors")));
    }

    void recordedModels() {
        int models = 0;
        for (const auto &entry :
             fs::directory_iterator(fs::path(TPSCOPE_TEST_DATA) / "fixtures/models")) {
            if (!fs::exists(entry.path() / "model.safetensors"))
                continue;
            const auto checkpoint = Checkpoint::open({entry.path() / "model.safetensors"});
            QVERIFY2(checkpoint, qPrintable(errorOf(checkpoint)));
            const auto expected = nlohmann::json::parse(*readFile(entry.path() / "expected.json"));
            std::vector<std::string> names;
            for (const auto &[name, shape] : expected.at("checkpoint_keys").items()) {
                names.push_back(name);
                const TensorEntry *tensor = checkpoint->find(name);
                QVERIFY2(tensor, name.c_str());
                QCOMPARE(tensor->shape, shape.get<Shape>());
                QCOMPARE(checkpoint->bytes(name).size(),
                         static_cast<std::size_t>(elementCount(tensor->shape)) *
                             elementSize(tensor->dtype));
            }
            QCOMPARE(checkpoint->names(), names);
            QVERIFY(SafetensorsFile::open(entry.path() / "expected.safetensors"));
            ++models;
        }
        QVERIFY(models >= 11);
    }

    void checkpointsOfManyFiles() {
        writeBytes(file("a"), rawSafetensors(object(tensorJson("x", "F32", "[1]", 0, 4)), 4));
        writeBytes(file("b"), rawSafetensors(object(tensorJson("y", "F32", "[1]", 0, 4)), 4));
        writeBytes(file("c"), rawSafetensors(object(tensorJson("x", "F32", "[1]", 0, 4)), 4));
        const auto both = Checkpoint::open({file("a"), file("b")});
        QVERIFY2(both, qPrintable(errorOf(both)));
        QCOMPARE(both->names(), (std::vector<std::string>{"x", "y"}));
        QCOMPARE(both->fileOf("y")->path(), file("b"));
        QVERIFY(both->bytes("z").empty() && !both->fileOf("z") && !both->find("z"));

        const auto twice = Checkpoint::open({file("a"), file("c")});
        QVERIFY2(errorOf(twice).contains("tensor \"x\" is also in "), qPrintable(errorOf(twice)));
        const auto missing = Checkpoint::open({file("a"), file("missing")});
        QVERIFY2(errorOf(missing).contains("missing: no such file"), qPrintable(errorOf(missing)));

        writeBytes(file("i.json"),
                   R"({"metadata":{"total_size":8},"weight_map":{"x":"a","y":"b"}})");
        QVERIFY(Checkpoint::open({file("a"), file("b")}, file("i.json")));
        writeBytes(file("i.json"), R"({"weight_map":{"x":"a","y":"a"}})");
        const auto wrongFile = Checkpoint::open({file("a"), file("b")}, file("i.json"));
        QVERIFY2(errorOf(wrongFile).contains(
                     "tensor \"y\" is in \"a\", which does not hold it; it is in \"b\""),
                 qPrintable(errorOf(wrongFile)));
        writeBytes(file("i.json"), R"({"weight_map":{"x":"a","z":"b"}})");
        const auto nowhere = Checkpoint::open({file("a"), file("b")}, file("i.json"));
        QVERIFY2(errorOf(nowhere).contains("tensor \"z\" is in \"b\", which does not hold it"),
                 qPrintable(errorOf(nowhere)));
    }

    void quantisedCheckpoints() {
        writeBytes(file("q"),
                   rawSafetensors(object(tensorJson("m.q_proj.qweight", "I32", "[1]", 0, 4)), 4));
        const auto opened = Checkpoint::open({file("q")});
        QCOMPARE(opened.error().code, ErrorCode::Unsupported);
        QVERIFY2(errorOf(opened).contains(
                     "\"m.q_proj.qweight\" belongs to a quantised checkpoint (GPTQ"),
                 qPrintable(errorOf(opened)));
    }

    // A header of ten thousand tensors is read in milliseconds; a second would mean quadratic work.
    void manyTensors() {
        std::string header = "{";
        for (std::uint64_t i = 0; i < 10000; ++i)
            header += (i ? "," : "") + tensorJson("model.layers." + std::to_string(i) +
                                                      ".mlp.experts.up_proj.weight",
                                                  "F32", "[1]", 4 * i, 4 * i + 4);
        const fs::path path = writeBytes(file("many"), rawSafetensors(header + "}", 40000));
        QElapsedTimer timer;
        timer.start();
        const auto checkpoint = Checkpoint::open({path});
        QVERIFY2(checkpoint, qPrintable(errorOf(checkpoint)));
        QCOMPARE(checkpoint->names().size(), std::size_t{10000});
        QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
    }
};

QTEST_APPLESS_MAIN(SafetensorsTest)
#include "safetensorstest.moc"
