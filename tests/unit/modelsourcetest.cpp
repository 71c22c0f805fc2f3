// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/modelsource.h"

#include <QtTest>

#include "../support/rawsafetensors.h"
#include "arch/family.h"
#include "base/resources.h"
#include "model/hubcache.h"
#include "model/safetensors.h"

using namespace tpscope;
using namespace tpscope::testing;
namespace fs = std::filesystem;

namespace {

template <typename T> QString errorOf(const Result<T> &result) {
    return result ? QStringLiteral("no error") : QString::fromStdString(result.error().text());
}

std::string oneTensor(const std::string &name) {
    return rawSafetensors("{" + tensorJson(name, "F32", "[1]", 0, 4) + "}", 4);
}

std::vector<std::string> fileNames(const ModelSource &source) {
    std::vector<std::string> names;
    for (const fs::path &path : source.weightFiles)
        names.push_back(path.filename().string());
    return names;
}

using Names = std::vector<std::string>;

} // namespace

class ModelSourceTest : public QObject {
    Q_OBJECT
    std::unique_ptr<QTemporaryDir> m_folder;

    fs::path root() const { return m_folder->path().toStdString(); }
    void write(const fs::path &relative, std::string_view bytes = "{}") const {
        writeBytes(root() / relative, bytes);
    }
    Result<ModelSource> find(const fs::path &relative) const {
        return findModel((root() / relative).string());
    }

private slots:
    void init() {
        m_folder = std::make_unique<QTemporaryDir>();
        qputenv("HF_HUB_CACHE", QByteArray::fromStdString((root() / "hub").string()));
    }

    void folderWithOneFile() {
        write("m/config.json");
        write("m/model.safetensors", oneTensor("a"));
        write("m/expected.safetensors", oneTensor("b"));
        write("m/model.safetensors.index.json", "not read");
        const auto source = find("m");
        QVERIFY2(source, qPrintable(errorOf(source)));
        QCOMPARE(source->configPath, root() / "m/config.json");
        QCOMPARE(source->folder, root() / "m");
        QCOMPARE(fileNames(*source), Names{"model.safetensors"});
        QVERIFY(source->indexPath.empty() && !source->bundled && source->hasWeights());
        QVERIFY(findModel((root() / "m").string() + "/")->hasWeights());
    }

    void folderWithIndex() {
        write("m/config.json");
        write("m/two", oneTensor("b"));
        write("m/one", oneTensor("a"));
        write("m/other.safetensors", oneTensor("z"));
        write("m/model.safetensors.index.json", R"({"weight_map":{"b":"two","a":"one"}})");
        const auto source = find("m");
        QVERIFY2(source, qPrintable(errorOf(source)));
        QCOMPARE(fileNames(*source), (Names{"two", "one"}));
        QCOMPARE(source->indexPath, root() / "m/model.safetensors.index.json");
        QVERIFY(Checkpoint::open(source->weightFiles, source->indexPath));
    }

    void indexErrors_data() {
        QTest::addColumn<QByteArray>("index");
        QTest::addColumn<QString>("message");
        QTest::newRow("missing file")
            << QByteArray(R"({"weight_map":{"a":"one","b":"gone","c":"gone"}})")
            << "tensor \"b\": file \"gone\" is missing";
        QTest::newRow("folder") << QByteArray(R"({"weight_map":{"a":"."}})")
                                << "file \".\" is missing";
        QTest::newRow("parent") << QByteArray(R"({"weight_map":{"a":"../secret"}})")
                                << "outside the model's folder";
        QTest::newRow("link out") << QByteArray(R"({"weight_map":{"a":"out"}})")
                                  << "file \"out\" is a link that leads outside the model's folder";
        QTest::newRow("folder link")
            << QByteArray(R"({"weight_map":{"a":"up/secret"}})") << "leads outside";
        QTest::newRow("broken link")
            << QByteArray(R"({"weight_map":{"a":"broken"}})") << "is a link to a missing file";
        QTest::newRow("syntax") << QByteArray("{") << "index.json:1:2: no valid JSON";
    }
    void indexErrors() {
        QFETCH(QByteArray, index);
        QFETCH(QString, message);
        write("secret", oneTensor("a"));
        write("m/config.json");
        write("m/one", oneTensor("a"));
        fs::create_symlink("../secret", root() / "m/out");
        fs::create_directory_symlink("..", root() / "m/up");
        fs::create_symlink("nothing", root() / "m/broken");
        write("m/model.safetensors.index.json", index.toStdString());
        const auto source = find("m");
        QVERIFY(!source);
        QCOMPARE(source.error().code, ErrorCode::BadInput);
        QVERIFY2(errorOf(source).contains(message), qPrintable(errorOf(source)));
    }

    void linkInsideTheFolder() {
        write("m/config.json");
        write("m/one", oneTensor("a"));
        fs::create_symlink("one", root() / "m/link");
        write("m/model.safetensors.index.json", R"({"weight_map":{"a":"link"}})");
        QVERIFY2(find("m"), qPrintable(errorOf(find("m"))));
    }

    void shardsWithoutIndex() {
        write("m/config.json");
        write("m/model-00002-of-00002.safetensors", oneTensor("b"));
        write("m/expected.safetensors", oneTensor("z"));
        const auto incomplete = find("m");
        QVERIFY2(errorOf(incomplete).contains("weight file 1 of 2 is missing"),
                 qPrintable(errorOf(incomplete)));
        write("m/model-00001-of-00002.safetensors", oneTensor("a"));
        const auto source = find("m");
        QVERIFY2(source, qPrintable(errorOf(source)));
        QCOMPARE(fileNames(*source),
                 (Names{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
        write("m/model-00001-of-00003.safetensors", oneTensor("c"));
        QVERIFY2(errorOf(find("m")).contains("shards of two checkpoints"),
                 qPrintable(errorOf(find("m"))));
    }

    void otherFiles() {
        write("m/config.json");
        QVERIFY(find("m") && !find("m")->hasWeights());
        QVERIFY(!find("m")->unreadableWeights);
        write("m/pytorch_model.bin", "x");
        const auto unreadable = find("m");
        QVERIFY(unreadable && !unreadable->hasWeights() && unreadable->unreadableWeights);
        QVERIFY(unreadable->unreadableWeights->text().find("\"pytorch_model.bin\"") !=
                std::string::npos);
        write("m/weights.safetensors", oneTensor("a"));
        QCOMPARE(fileNames(*find("m")), Names{"weights.safetensors"});
        QVERIFY(!find("m")->unreadableWeights);
        fs::create_symlink("gone", root() / "m/model.safetensors");
        QVERIFY2(errorOf(find("m")).contains("is a link to a missing file"),
                 qPrintable(errorOf(find("m"))));
    }

    void configAlone() {
        write("m/config.json");
        write("m/model.safetensors", oneTensor("a"));
        const auto source = find("m/config.json");
        QVERIFY(source);
        QVERIFY(!source->hasWeights() && source->folder.empty());
        QCOMPARE(source->configPath, root() / "m/config.json");
        QVERIFY(errorOf(find("m/model.safetensors")).contains("is a weight file; name the folder"));
    }

    void bundledNames() {
        const std::vector<std::string> names = bundledModelNames();
        QVERIFY(std::ranges::is_sorted(names));
        for (const std::string &name : names) {
            const auto source = findModel(name);
            QVERIFY2(source, qPrintable(errorOf(source)));
            QVERIFY(source->bundled);
            QVERIFY2(ModelConfig::load(source->configPath.string()), name.c_str());
            QVERIFY(!source->hasWeights() || Checkpoint::open(source->weightFiles));
        }
        QVERIFY(findModel("qwen3-tiny")->hasWeights());
        QVERIFY(!findModel("qwen3-8b")->hasWeights());
    }

    // Parameters of the published models: https://huggingface.co/meta-llama/Llama-3.1-8B and
    // Qwen/Qwen3-8B.
    void publishedSizes_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<qint64>("parameters");
        QTest::newRow("llama") << "llama-3.1-8b" << qint64{8030261248};
        QTest::newRow("qwen3") << "qwen3-8b" << qint64{8190735360};
    }
    void publishedSizes() {
        QFETCH(QString, name);
        QFETCH(qint64, parameters);
        const auto config = ModelConfig::load(findModel(name.toStdString())->configPath.string());
        QVERIFY2(config, qPrintable(errorOf(config)));
        const auto model = describe(*config);
        QVERIFY2(model, qPrintable(errorOf(model)));
        QCOMPARE(qint64{model->parameterCount()}, parameters);
    }

    void aFolderGoesBeforeABundledName() {
        const fs::path before = fs::current_path();
        write("qwen3-8b/config.json");
        write("qwen3-tiny/notes.txt");
        fs::current_path(root());
        const auto local = findModel("qwen3-8b");
        const auto bundled = findModel("qwen3-tiny"); // the folder there is no model
        fs::current_path(before);
        QVERIFY(local && !local->bundled);
        QVERIFY(bundled && bundled->bundled);
    }

    void noSuchModel() {
        const auto near = findModel("qwen3_8b");
        QCOMPARE(near.error().code, ErrorCode::NotFound);
        QVERIFY2(errorOf(near).contains("did you mean: qwen3-8b"), qPrintable(errorOf(near)));
        const auto far = findModel("/no/such/folder/at/all/anywhere");
        QCOMPARE(far.error().code, ErrorCode::NotFound);
        QVERIFY2(errorOf(far).contains("qwen3-tiny"), qPrintable(errorOf(far)));
        QCOMPARE(findModel("").error().code, ErrorCode::Usage);
        fs::create_directory(root() / "empty");
        const auto empty = find("empty");
        QCOMPARE(empty.error().code, ErrorCode::BadInput);
        QVERIFY2(errorOf(empty).contains("has no config.json"), qPrintable(errorOf(empty)));
    }

    void hubCache() {
        const fs::path repository = "hub/models--org--name";
        QCOMPARE(findModel("org/name").error().code, ErrorCode::NotFound);
        write(repository / "refs/main", "abc\n");
        QVERIFY2(errorOf(findModel("org/name")).contains("without any snapshot"),
                 qPrintable(errorOf(findModel("org/name"))));
        write(repository / "snapshots/older/config.json");
        QVERIFY(findModel("org/name")->folder.filename() == "older"); // the only one
        write(repository / "snapshots/abc/tokenizer.json");
        QVERIFY2(errorOf(findModel("org/name")).contains("has no config.json"),
                 qPrintable(errorOf(findModel("org/name"))));
        // Files of a snapshot are links into the repository's blobs.
        write(repository / "blobs/1");
        write(repository / "blobs/2", oneTensor("a"));
        write(repository / "blobs/3", R"({"weight_map":{"a":"one.safetensors"}})");
        const fs::path snapshot = root() / repository / "snapshots/abc";
        fs::create_symlink("../../blobs/1", snapshot / "config.json");
        fs::create_symlink("../../blobs/2", snapshot / "one.safetensors");
        fs::create_symlink("../../blobs/3", snapshot / "model.safetensors.index.json");
        for (const std::string &argument : {std::string("org/name"), snapshot.string()}) {
            const auto source = findModel(argument);
            QVERIFY2(source, qPrintable(errorOf(source)));
            QCOMPARE(fileNames(*source), Names{"one.safetensors"});
            QVERIFY(Checkpoint::open(source->weightFiles, source->indexPath));
        }
        fs::remove(root() / repository / "refs/main");
        QVERIFY2(errorOf(findModel("org/name")).contains("2 snapshots in the cache"),
                 qPrintable(errorOf(findModel("org/name"))));
        write(repository / "refs/main", "../../../m");
        QVERIFY(!findModel("org/name"));
        write("hub/models--gpt2/snapshots/x/config.json");
        QVERIFY(findModel("gpt2"));
    }

    void hubCacheFolder() {
        QCOMPARE(hubCacheDir(), root() / "hub");
        qunsetenv("HF_HUB_CACHE");
        qputenv("HF_HOME", "/a");
        QCOMPARE(hubCacheDir(), fs::path("/a/hub"));
        qunsetenv("HF_HOME");
        qputenv("XDG_CACHE_HOME", "/b");
        QCOMPARE(hubCacheDir(), fs::path("/b/huggingface/hub"));
        qunsetenv("XDG_CACHE_HOME");
        qputenv("HOME", "/c");
        QCOMPARE(hubCacheDir(), fs::path("/c/.cache/huggingface/hub"));
    }

    void hubIds() {
        for (const char *id : {"org/name", "gpt2", "Qwen/Qwen3-0.6B", "a_b/c.d"})
            QVERIFY2(isHubId(id), id);
        for (const char *id :
             {"", "/", "a/", "/a", "a/b/c", "../x", "a..b", "a--b", ".hidden", "x y", "a\\b", "-a"})
            QVERIFY2(!isHubId(id), id);
    }
};

QTEST_APPLESS_MAIN(ModelSourceTest)
#include "modelsourcetest.moc"
