// SPDX-License-Identifier: GPL-3.0-or-later
// The troubles people report, one a case: tests/data/cases/*.json say what goes in (a configuration over one of the tiny
// models, a plan, options) and what has to be said. Cases of one "row" are one kind of trouble and its neighbours.
#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>

#include "program.h"

namespace {

QByteArray compact(const QJsonValue &value) {
    return value.isObject() ? QJsonDocument(value.toObject()).toJson(QJsonDocument::Compact)
                            : QJsonDocument(value.toArray()).toJson(QJsonDocument::Compact);
}

QJsonValue at(const QJsonObject &object, const QString &path) {
    QJsonValue value = object;
    for (const QString &part : path.split('.'))
        value = value.isArray() ? value.toArray().at(part.toInt()) : value.toObject().value(part);
    return value;
}

bool same(const QJsonValue &a, const QJsonValue &b) {
    constexpr double rounding = 1e-4; // of a norm, printed with 6 digits
    return a == b || (a.isDouble() && b.isDouble() && std::abs(a.toDouble() - b.toDouble()) < rounding);
}

QStringList texts(const QJsonValue &value) {
    QStringList out;
    for (const QJsonValue &entry : value.toArray())
        out << entry.toString();
    return out;
}

// The fixes' edits, from the back so that offsets hold.
QByteArray applied(QByteArray text, const QJsonArray &fixes) {
    std::vector<QJsonObject> edits;
    for (const QJsonValue &fix : fixes)
        for (const QJsonValue &edit : fix.toObject()["edits"].toArray())
            if (std::ranges::find(edits, edit.toObject()) == edits.end())
                edits.push_back(edit.toObject());
    std::ranges::stable_sort(edits, std::greater(), [](const QJsonObject &e) { return e["offset"].toInteger(); });
    for (const QJsonObject &edit : edits)
        text.replace(edit["offset"].toInteger(), edit["length"].toInteger(), edit["text"].toString().toUtf8());
    return text;
}

} // namespace

class CasesTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    int m_number = 0;

    QString write(const QString &name, const QByteArray &bytes) {
        QFile file(m_folder.filePath(name));
        QDir().mkpath(QFileInfo(file).path());
        if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size())
            qFatal("cannot write the test's own file");
        return file.fileName();
    }

    // Model and plan of a case, as files.
    QStringList input(const QJsonObject &testCase, const std::optional<QByteArray> &planText) {
        const QString folder = QString::number(m_number++);
        QJsonObject config = readObject(fixture("models/" + testCase["model"].toString("llama") + "/config.json"));
        const QJsonObject changes = testCase["config"].toObject();
        for (auto it = changes.begin(); it != changes.end(); ++it)
            config[it.key()] = it.value();
        write(folder + "/config.json", QJsonDocument(config).toJson());
        QStringList arguments = {"--model", m_folder.filePath(folder)};
        arguments << "--plan" << (planText ? write(folder + "/plan.yaml", *planText) : QString("auto"));
        if (!testCase["arguments"].toArray().contains("--tp"))
            arguments << "--tp" << "2";
        return arguments + texts(testCase["arguments"]);
    }

    static std::optional<QByteArray> planOf(const QJsonObject &testCase) {
        if (!testCase.contains("plan"))
            return std::nullopt;
        QByteArray text;
        for (const QString &line : texts(testCase["plan"]))
            text += line.toUtf8() + '\n';
        return text;
    }

    QJsonObject lint(const QJsonObject &testCase, const std::optional<QByteArray> &plan, QByteArray &said) {
        const ProgramRun run = runTpscope(QStringList{"lint", "--format", "json"} + input(testCase, plan), 60000);
        said = run.out + run.err;
        const QJsonObject report = run.json();
        if (run.exitCode != (report["errors"].toInt() > 0 ? 1 : 0))
            said.prepend("exit " + QByteArray::number(run.exitCode) + "\n");
        return report;
    }

    static void addCases(const char *column, const QString &files) {
        QTest::addColumn<QJsonObject>(column);
        const QDir folder(QStringLiteral(TPSCOPE_TEST_DATA "/cases"));
        for (const QString &name : folder.entryList({files}, QDir::Files, QDir::Name)) {
            QFile file(folder.filePath(name));
            QVERIFY(file.open(QIODevice::ReadOnly));
            QJsonParseError error;
            const QJsonDocument document = QJsonDocument::fromJson(file.readAll(), &error);
            QVERIFY2(document.isArray(), qPrintable(name + ": " + error.errorString()));
            for (const QJsonValue &value : document.array())
                QTest::newRow(qPrintable(value["row"].toString() + " " + value["title"].toString()))
                    << value.toObject();
        }
    }

    static std::optional<QJsonObject> match(const QJsonObject &wanted, const QJsonArray &diagnostics) {
        for (const QJsonValue &value : diagnostics) {
            const QJsonObject found = value.toObject();
            const QStringList modules = texts(found["modules"]), named = texts(wanted["modules"]);
            const QStringList says = texts(wanted["says"]);
            const QString message = found["message"].toString();
            if (found["code"] == wanted["code"] && found["severity"] == wanted["severity"] &&
                found["line"].toInt() == wanted["line"].toInt() &&
                (!wanted.contains("rule") || found["rule"] == wanted["rule"]) &&
                std::ranges::all_of(named, [&](const QString &name) { return modules.contains(name); }) &&
                std::ranges::all_of(says, [&](const QString &part) { return message.contains(part); }))
                return found;
        }
        return std::nullopt;
    }

private slots:
    void isJudgedRight_data() { addCases("testCase", "lint-*.json"); }

    void isJudgedRight() {
        QFETCH(QJsonObject, testCase);
        const auto plan = planOf(testCase);
        QByteArray said;
        const QJsonObject report = lint(testCase, plan, said);
        QVERIFY2(!said.startsWith("exit "), said);
        QVERIFY2(report["outcome"] == testCase["outcome"], said);
        const QJsonArray diagnostics = report["diagnostics"].toArray();
        QJsonArray fixes;
        int errors = 0;
        for (const QJsonValue &value : testCase["findings"].toArray()) {
            const QJsonObject wanted = value.toObject();
            const auto found = match(wanted, diagnostics);
            QVERIFY2(found, compact(wanted) + "\nnot among\n" + said);
            errors += wanted["severity"] == "error";
            const QJsonObject fix = found->value("fix").toObject();
            const bool edits = !fix["edits"].toArray().isEmpty();
            const QString kind = wanted["fix"].toString("none");
            QVERIFY2(edits == (kind != "none" && kind != "advice"), said); // "some": not all of it
            QVERIFY2(!fix.isEmpty() == (kind != "none"), said);
            if (kind == "part") // one of several that belong together
                fixes.append(fix);
            if (kind == "edit") {
                QByteArray after;
                const QJsonObject mended = lint(testCase, applied(*plan, {fix}), after);
                QVERIFY2(mended["outcome"] == "ok" && mended["errors"].toInt() == 0, applied(*plan, {fix}) + after);
            }
        }
        QVERIFY2(report["errors"].toInt() == errors, "other errors than these:\n" + said);
        if (!fixes.isEmpty()) {
            QByteArray after;
            const QJsonObject mended = lint(testCase, applied(*plan, fixes), after);
            QVERIFY2(mended["outcome"] == "ok" && mended["errors"].toInt() == 0, applied(*plan, fixes) + after);
        }
        if (testCase.contains("valid_tp_sizes"))
            QCOMPARE(report["valid_tp_sizes"], testCase["valid_tp_sizes"]);
    }

    // The other verbs say the same: what each answers, or why it refuses.
    void isAnsweredByVerb_data() { addCases("testCase", "verb-*.json"); }

    void isAnsweredByVerb() {
        QFETCH(QJsonObject, testCase);
        QStringList arguments = {testCase["verb"].toString()};
        if (testCase.contains("json"))
            arguments << "--format" << "json";
        const ProgramRun run = runTpscope(arguments + input(testCase, planOf(testCase)), 120000);
        QVERIFY2(run.exitCode == testCase["exit"].toInt(), run.out + run.err);
        for (const QString &part : texts(testCase["says"]))
            QVERIFY2((run.out + run.err).contains(part.toUtf8()), run.out + run.err);
        const QJsonObject wanted = testCase["json"].toObject();
        for (auto it = wanted.begin(); it != wanted.end(); ++it)
            QVERIFY2(same(at(run.json(), it.key()), it.value()), it.key().toUtf8() + " is " +
                                                                     at(run.json(), it.key()).toVariant().toByteArray());
    }

    // Texts nobody should write: read, or one error with its place.
    void odd_data() {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<int>("exitCode");
        QTest::addColumn<QByteArray>("says");
        const QByteArray rule = "  model.layers.*.self_attn.q_proj: colwise\n", plan = "tp_plan:\n" + rule;
        const auto error = [](const char *title, QByteArray text, QByteArray says) {
            QTest::newRow(title) << std::move(text) << 2 << std::move(says);
        };
        QTest::newRow("byte-order mark") << QByteArray("\xef\xbb\xbf" + plan) << 0 << QByteArray("outcome: ok");
        QTest::newRow("CRLF") << QByteArray(plan).replace("\n", "\r\n") << 0 << QByteArray("outcome: ok");
        QTest::newRow("alias") << QByteArray("x-a: &a colwise\ntp_plan:\n  lm_head: colwise_rep\n"
                                             "  model.layers.*.mlp.up_proj: *a\n") << 0 << QByteArray("outcome: ok");
        QTest::newRow("merge key") << "x-a: &a\n" + rule + "tp_plan:\n  <<: *a\n  lm_head: colwise_rep\n" << 0
                                   << QByteArray("outcome: ok");
        QTest::newRow("10 MB of comment") << "# " + QByteArray(10'000'000, 'x') + "\n" + plan << 0
                                          << QByteArray("outcome: ok");
        QByteArray many = "tp_plan:\n";
        for (int i = 0; i < 20000; ++i)
            many += "  model.layers.*.part" + QByteArray::number(i) + ": colwise\n";
        QTest::newRow("20,000 unknown keys") << many << 1 << QByteArray("19900 more keys match nothing");
        error("tabs", "tp_plan:\n\tlm_head: colwise\n", "plan.yaml:2:");
        error("unknown alias", "tp_plan:\n  lm_head: *a\n", "plan.yaml:2:12:");
        error("depth 10,000", "tp_plan: " + QByteArray(10000, '[') + QByteArray(10000, ']'), "nested too deeply");
        error("not UTF-8", "tp_plan:\n  lm_head\xff: colwise\n", "plan.yaml:2:10: byte 0xFF");
        error("NUL", QByteArray("tp_plan:\n  lm_head: col\0wise\n", 32), "plan.yaml:2:15: control character 0x00");
        error("empty", "", "plan.yaml:1:1: the file is empty");
        error("a list", "- lm_head\n", "plan.yaml:1:1: expected a mapping");
        error("two documents", plan + "---\n" + plan, "plan.yaml:4:1: a second YAML document");
    }

    void odd() {
        QFETCH(QByteArray, text);
        QFETCH(int, exitCode);
        QFETCH(QByteArray, says);
        const ProgramRun run = runTpscope(QStringList{"lint"} + input(QJsonObject(), text), 60000);
        QVERIFY2(run.exitCode == exitCode, run.out.left(2000) + run.err);
        QVERIFY2((run.out + run.err).contains(says), run.out.left(2000) + run.err);
        QVERIFY2(exitCode != 2 || run.err.count('\n') == 1, run.err);
    }

    // Row 9. The default rule looks for `embed_tokens`; the family is known by its tensors alone.
    void anEmbeddingUnderAnotherName() {
        const std::pair<const char *, QList<int>> tensors[] = {{"transformer.wte.weight", {256, 64}},
                                                               {"transformer.h.0.mlp.c_fc.weight", {64, 128}},
                                                               {"transformer.h.0.mlp.c_proj.weight", {128, 64}},
                                                               {"lm_head.weight", {256, 64}}};
        QJsonObject header;
        qint64 end = 0;
        for (const auto &[name, shape] : tensors) {
            const qint64 begin = end;
            end += 4LL * shape[0] * shape[1];
            header[name] = QJsonObject{{"dtype", "F32"},
                                       {"shape", QJsonArray{shape[0], shape[1]}},
                                       {"data_offsets", QJsonArray{begin, end}}};
        }
        const QByteArray json = QJsonDocument(header).toJson(QJsonDocument::Compact);
        QByteArray length(8, '\0');
        for (int i = 0; i < 8; ++i)
            length[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
        write("wte/model.safetensors", length + json + QByteArray(end, '\0'));
        write("wte/config.json", R"({"model_type": "wte_model", "vocab_size": 256, "tie_word_embeddings": false})");
        const QByteArray text = "tp_plan:\n  transformer.h.*.mlp.c_fc: colwise\n";
        const QStringList arguments = {"lint", "--format", "json", "--model", m_folder.filePath("wte"), "--tp", "2"};
        const ProgramRun run = runTpscope(arguments + QStringList{"--plan", write("wte/plan.yaml", text)});
        const QJsonObject wanted{{"code", "TP206"},
                                 {"severity", "warning"},
                                 {"modules", QJsonArray{"transformer.wte"}},
                                 {"says", QJsonArray{"nearest: `transformer.wte`", "65.5 kB"}}};
        const auto found = match(wanted, run.json()["diagnostics"].toArray());
        QVERIFY2(found, run.out + run.err);
        const QByteArray mended = applied(text, {found->value("fix")});
        QVERIFY2(mended.contains("  transformer.wte: embedding_rowwise\n"), mended);
        const ProgramRun again = runTpscope(arguments + QStringList{"--plan", write("wte/mended.yaml", mended)});
        QVERIFY2(!again.out.contains("TP206"), again.out);
    }

    void aFolderIsNoPlan() {
        const ProgramRun run = runTpscope({"lint", "--model", "qwen3-tiny", "--plan", m_folder.path()});
        QCOMPARE(run.exitCode, 2);
        QVERIFY2(run.err.contains("is a directory"), run.err);
    }

    // config.json: what is missing or wrong is named; what does not matter is not asked for.
    void configurations_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QJsonValue>("value");
        QTest::addColumn<int>("exitCode");
        const QJsonValue missing(QJsonValue::Undefined);
        for (const char *key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type"})
            QTest::addRow("no %s", key) << QString(key) << missing << 2;
        for (const char *key : {"num_key_value_heads", "head_dim", "rms_norm_eps", "architectures", "rope_parameters"})
            QTest::addRow("no %s", key) << QString(key) << missing << 0;
        const std::pair<const char *, QJsonValue> wrong[] = {
            {"hidden_size", "64"},      {"hidden_size", true},        {"hidden_size", 1e30},
            {"num_hidden_layers", -1},  {"num_hidden_layers", 0},     {"num_attention_heads", QJsonValue::Null},
            {"num_key_value_heads", 3}, {"vocab_size", 1.5},          {"tie_word_embeddings", "yes"},
            {"rope_parameters", 3},     {"dtype", "float7"},          {"head_dim", 15},
            {"model_type", "warp9"},    {"num_hidden_layers", 1e9},   {"num_attention_heads", 1 << 30}};
        for (const auto &[key, value] : wrong)
            QTest::addRow("%s %s", key, value.toVariant().toByteArray().constData()) << QString(key) << value << 2;
    }

    void configurations() {
        QFETCH(QString, key);
        QFETCH(QJsonValue, value);
        QFETCH(int, exitCode);
        QJsonObject config = readObject(fixture("models/llama/config.json"));
        if (value.isUndefined())
            config.remove(key);
        else
            config[key] = value;
        const QString path = write(QString("config%1/config.json").arg(m_number++), QJsonDocument(config).toJson());
        const ProgramRun run = runTpscope({"lint", "--model", path}, 60000);
        QVERIFY2(run.exitCode == exitCode, run.out + run.err);
        QVERIFY2(exitCode == 0 || (run.err.contains("config.json") && run.err.contains(key.toUtf8())), run.err);
    }
};

QTEST_GUILESS_MAIN(CasesTest)
#include "casestest.moc"
