// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/modelconfig.h"

#include <QtTest>
#include <filesystem>

#include "base/resources.h"
#include "model/jsonreader.h"

using namespace tpscope;

namespace {

ModelConfig parsed(const std::string &text) {
    auto config = ModelConfig::parse(text, "config.json");
    return config ? std::move(*config) : ModelConfig();
}

template <typename T> QString errorOf(const Result<T> &result) {
    return result ? QStringLiteral("no error") : QString::fromStdString(result.error().text());
}

} // namespace

class ModelConfigTest : public QObject {
    Q_OBJECT
private slots:
    void bothSpellingsMeanTheSame_data() {
        QTest::addColumn<QString>("version4");
        QTest::addColumn<QString>("version5");
        QTest::newRow("theta")
            << R"({"rope_theta": 500000.0, "torch_dtype": "bfloat16"})"
            << R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
                                      "dtype": "bfloat16"})";
        QTest::newRow("nothing") << R"({"rope_scaling": null})" << R"({"rope_parameters": null})";
        QTest::newRow("empty") << R"({"rope_scaling": {}, "rope_theta": 7})"
                               << R"({"rope_parameters": {"rope_theta": 7}})";
        QTest::newRow("old key 'type'")
            << R"({"rope_theta": 10, "rope_scaling": {"type": "linear", "factor": 2},
                   "torch_dtype": "torch.float16"})"
            << R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10},
                   "dtype": "float16"})";
        QTest::newRow("llama3") << R"({"rope_theta": 5e5, "max_position_embeddings": 64,
                   "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                                    "high_freq_factor": 4,
                                    "original_max_position_embeddings": 16}})"
                                << R"({"max_position_embeddings": 64,
                   "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8,
                                       "low_freq_factor": 1, "high_freq_factor": 4,
                                       "original_max_position_embeddings": 16}})";
        QTest::newRow("yarn with a boolean, partial factor outside")
            << R"({"rope_theta": 5e5, "partial_rotary_factor": 0.5, "max_position_embeddings": 64,
                   "rope_scaling": {"type": "yarn", "factor": 4, "truncate": false}})"
            << R"({"max_position_embeddings": 64,
                   "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4,
                                       "truncate": false, "partial_rotary_factor": 0.5}})";
    }
    void bothSpellingsMeanTheSame() {
        QFETCH(QString, version4);
        QFETCH(QString, version5);
        const ModelConfig old = parsed(version4.toStdString());
        const ModelConfig now = parsed(version5.toStdString());
        const auto oldRope = old.rope();
        const auto nowRope = now.rope();
        QVERIFY2(oldRope && nowRope, qPrintable(errorOf(oldRope) + errorOf(nowRope)));
        QCOMPARE(oldRope->type, nowRope->type);
        QCOMPARE(oldRope->theta, nowRope->theta);
        QCOMPARE(oldRope->numbers, nowRope->numbers);
        QCOMPARE(*old.dtype(), *now.dtype());
    }

    void ropeValues() {
        const auto plain = parsed("{}").rope();
        QVERIFY(plain);
        QCOMPARE(plain->type, std::string("default"));
        QCOMPARE(plain->theta, 10000.0);
        QVERIFY(plain->numbers.empty());

        const auto yarn =
            parsed(R"({"max_position_embeddings": 128, "rope_theta": 3, "rope_scaling": {
            "rope_type": "yarn", "factor": null, "original_max_position_embeddings": 32,
            "truncate": true}})")
                .rope();
        QVERIFY2(yarn, qPrintable(errorOf(yarn)));
        QCOMPARE(yarn->number("factor", 0), 4.0); // 128 / 32, as upstream infers it
        QCOMPARE(yarn->number("truncate", 0), 1.0);
        QCOMPARE(yarn->number("beta_fast", 32), 32.0);
        QCOMPARE(yarn->theta, 3.0);

        const auto beside = parsed(R"({"original_max_position_embeddings": 16, "rope_scaling": {
            "type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4]}})")
                                .rope();
        QVERIFY2(beside, qPrintable(errorOf(beside)));
        QCOMPARE(beside->number("original_max_position_embeddings", 0), 16.0);
    }

    void ropeByLayerType() {
        const ModelConfig config =
            parsed(R"({"layer_types": ["sliding_attention", "full_attention", "nope"],
            "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8,
                                                   "rope_theta": 1e6},
                                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                                "nope": null}})");
        QCOMPARE(config.rope()->theta, 1e6);
        QCOMPARE(config.rope("sliding_attention")->theta, 1e4);
        QCOMPARE(config.rope("full_attention")->type, std::string("linear"));
        QCOMPARE(config.rope("nope")->theta, 10000.0);
        QVERIFY(errorOf(config.rope("other")).contains("an entry for layer type \"other\""));
        QCOMPARE(parsed("{}").rope("any", 2.5)->theta, 2.5);
    }

    void typedAccess() {
        const ModelConfig config =
            parsed(R"({"model_type": "llama", "a": 5, "b": 2.5, "c": true, "d": "x", "n": null,
                                              "big": 2147483648})");
        QCOMPARE(config.modelType(), std::string("llama"));
        QCOMPARE(*config.integer("a"), 5);
        QCOMPARE(*config.integer("big"), std::int64_t{1} << 31);
        QCOMPARE(*config.integer("n", 7), 7);
        QCOMPARE(*config.integer("missing", 8), 8);
        QCOMPARE(*config.real("a", 0), 5.0);
        QCOMPARE(*config.real("b", 0), 2.5);
        QCOMPARE(*config.flag("c", false), true);
        QCOMPARE(*config.text("d", ""), std::string("x"));
        QVERIFY(config.has("a") && !config.has("n") && !config.has("missing"));
        QVERIFY(parsed("{}").modelType().empty());
        QVERIFY(config.tpPlan() == nullptr);
        const ModelConfig planned = parsed(R"({"base_model_tp_plan": {"layers.*.q": "colwise"}})");
        QVERIFY(planned.tpPlan() && planned.tpPlan()->size() == 1);
    }

    void wrongValues_data() {
        QTest::addColumn<QString>("value");
        QTest::addColumn<QString>("getter");
        QTest::addColumn<QString>("message");
        const auto row = [](const char *name, const char *value, const char *getter,
                            const char *message) {
            QTest::newRow(name) << value << getter << message;
        };
        row("missing", R"({})", "integer", "nothing: the key is missing");
        row("null", R"({"k": null})", "integer", "found null");
        row("text", R"({"k": "64"})", "integer", "found \"64\"");
        row("fraction", R"({"k": 64.5})", "integer", "found 64.5");
        row("whole but real", R"({"k": 64.0})", "integer", "found 64.0");
        row("negative", R"({"k": -1})", "integer", "found -1");
        row("too large", R"({"k": 2147483649})", "integer",
            "from 0 to 2147483648, found 2147483649");
        row("unsigned", R"({"k": 18446744073709551615})", "integer", "found 18446744073709551615");
        row("beyond 64 bits", R"({"k": 1e30})", "integer", "found 1e+30");
        row("boolean", R"({"k": true})", "integer", "found true");
        row("list", R"({"k": [1, 2]})", "integer", "found [1,2]");
        row("real from text", R"({"k": "1e-6"})", "real", "expected a number, found \"1e-6\"");
        row("flag from number", R"({"k": 1})", "flag", "expected true or false, found 1");
        row("text from number", R"({"k": 3})", "text", "expected a string, found 3");
        row("dtype unknown", R"({"dtype": "float33"})", "dtype", "key \"dtype\": expected float32");
        row("dtype of integers", R"({"torch_dtype": "int8"})", "dtype",
            "key \"torch_dtype\": expected float32");
        row("dtype by part", R"({"dtype": {"a": "float32"}})", "dtype",
            "found {\"a\":\"float32\"}");
        row("rope a number", R"({"rope_scaling": 3})", "rope",
            "key \"rope_scaling\": expected an object, found 3");
        row("rope a list", R"({"rope_parameters": []})", "rope", "expected an object, found []");
        row("rope type", R"({"rope_parameters": {"type": 3}})", "rope",
            "\"rope_parameters.type\": expected a string");
        row("rope factor", R"({"rope_scaling": {"type": "linear", "factor": "2"}})", "rope",
            "\"rope_scaling.factor\": expected a number, found \"2\"");
        row("rope incomplete",
            R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}})",
            "rope", "rope type \"llama3\" needs \"high_freq_factor\", which is missing");
        row("theta text", R"({"rope_theta": "x"})", "rope",
            "key \"rope_theta\": expected a number");
        row("theta negative", R"({"rope_theta": -5})", "rope", "above 0, found -5.0");
    }
    void wrongValues() {
        QFETCH(QString, value);
        QFETCH(QString, getter);
        QFETCH(QString, message);
        const auto config = ModelConfig::parse(value.toStdString(), "here/config.json");
        QVERIFY2(config, qPrintable(errorOf(config)));
        const QString error = getter == "integer" ? errorOf(config->integer("k"))
                              : getter == "real"  ? errorOf(config->real("k", 0))
                              : getter == "flag"  ? errorOf(config->flag("k", false))
                              : getter == "text"  ? errorOf(config->text("k", ""))
                              : getter == "dtype" ? errorOf(config->dtype())
                                                  : errorOf(config->rope());
        QVERIFY2(error.startsWith("here/config.json: key \""), qPrintable(error));
        QVERIFY2(error.contains(message), qPrintable(error));
    }

    void unreadable_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("message");
        QTest::newRow("empty") << QByteArray() << "c.json: the file is empty";
        QTest::newRow("blank") << QByteArray(" \n\t ") << "c.json: the file is empty";
        QTest::newRow("list") << QByteArray("[1]") << "c.json:1:1: expected an object";
        QTest::newRow("text") << QByteArray("\"x\"") << "found \"x\"";
        QTest::newRow("no comma") << QByteArray("{\n \"a\": 1\n \"b\": 2}")
                                  << "c.json:3:4: no valid JSON";
        // The column counts characters: two a-umlauts are four bytes.
        QTest::newRow("after umlauts")
            << QByteArray("{\"\xC3\xA4\xC3\xA4\": x}") << "c.json:1:8: no valid JSON";
        QTest::newRow("cut") << QByteArray("{\"a\": {") << "c.json:1:8: no valid JSON";
        QTest::newRow("invalid UTF-8")
            << QByteArray("{\"a\": \"\xFF\"}") << "c.json:1:8: no valid JSON: ";
        QTest::newRow("NUL") << QByteArray("{\"a\": 1}\0", 9) << "c.json:1:9: no valid JSON";
        QTest::newRow("overflow") << QByteArray("{\"a\": 1e400}") << "number overflow";
        QTest::newRow("binary") << QByteArray("\x89PNG\r\n\x1A\n\0\0", 10)
                                << "c.json:1:1: no valid JSON";
        QTest::newRow("deep list")
            << QByteArray("{\"a\":") + QByteArray(200000, '[') << "c.json:1:105: nested deeper";
        QTest::newRow("deep object")
            << QByteArray("{\"a\":").repeated(100000) << "nested deeper than 100 levels";
        QTest::newRow("model_type")
            << QByteArray("{\"model_type\": 3}") << "key \"model_type\": expected a string";
        QTest::newRow("long literal") << "{\"a\": " + QByteArray(1 << 20, 'z') << "no valid JSON";
    }
    void unreadable() {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, message);
        const auto config = ModelConfig::parse(bytes.toStdString(), "c.json");
        QVERIFY(!config);
        const QString error = errorOf(config);
        QVERIFY2(error.contains(message), qPrintable(error));
        QVERIFY2(error.size() < 400 && !error.contains('\n'), qPrintable(error));
        QCOMPARE(config.error().code, ErrorCode::BadInput);
    }

    void everyPrefixOfAFileIsRefused() {
        const auto text = readFile(std::filesystem::path(TPSCOPE_TEST_DATA) /
                                   "fixtures/models/qwen3/config.json");
        QVERIFY(text);
        QVERIFY(ModelConfig::parse(*text, "c.json"));
        const std::size_t whole = text->find_last_of('}');
        for (std::size_t size = 0; size <= whole; ++size)
            QVERIFY2(!ModelConfig::parse(text->substr(0, size), "c.json"),
                     qPrintable(QString::number(size)));
    }

    void filesThatAreNone() {
        QVERIFY(errorOf(ModelConfig::load("/nowhere/config.json"))
                    .contains("/nowhere/config.json: no such file"));
        QVERIFY(errorOf(ModelConfig::load(TPSCOPE_TEST_DATA)).contains("is a directory"));
    }

    void bundledAndRecordedConfigs() {
        int read = 0;
        for (const auto &root : {resourceDir() / "configs",
                                 std::filesystem::path(TPSCOPE_TEST_DATA) / "fixtures/models"})
            for (const auto &entry : std::filesystem::recursive_directory_iterator(root)) {
                const std::string name = entry.path().filename().string();
                if (root.filename() == "models" ? name != "config.json"
                                                : entry.path().extension() != ".json")
                    continue;
                const auto config = ModelConfig::load(entry.path().string());
                QVERIFY2(config, qPrintable(errorOf(config)));
                QVERIFY2(config->rope(), qPrintable(errorOf(config->rope())));
                QVERIFY2(config->dtype(), qPrintable(errorOf(config->dtype())));
                QVERIFY(!config->modelType().empty());
                ++read;
            }
        QVERIFY(read >= 9);
    }

    void textOfValues() {
        QCOMPARE(jsonText(nlohmann::json::parse("[1,2,3]")), std::string("[1,2,3]"));
        QCOMPARE(jsonText(nlohmann::json(std::vector<int>(17, 1))),
                 std::string("an array of 17 values"));
        QVERIFY(jsonText(std::string(1000, 'x')).size() <= 80);
    }
};

QTEST_APPLESS_MAIN(ModelConfigTest)
#include "modelconfigtest.moc"
