// SPDX-License-Identifier: GPL-3.0-or-later
// A model type that nobody described: names and sizes come from its checkpoint, and results are never called right.
#include <QTemporaryDir>
#include <QtTest>
#include <algorithm>

#include "../support/rawsafetensors.h"
#include "../support/recordedmodels.h"
#include "arch/tensornames.h"
#include "lint/codes.h"
#include "model/safetensors.h"

using namespace tpscope;
using nlohmann::json;

namespace {

std::string told(const LintReport &report) {
    std::string out(name(report.outcome));
    for (const Diagnostic &d : report.diagnostics)
        out += "\n  " + d.code + " " + d.message;
    return out;
}

const Diagnostic *find(const LintReport &report, std::string_view code) {
    const auto found = std::ranges::find(report.diagnostics, code, &Diagnostic::code);
    return found == report.diagnostics.end() ? nullptr : &*found;
}

} // namespace

class UnknownFamilyTest : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    // As GPT-2 names them.
    ModelDescription gpt2() const {
        const std::vector<std::pair<std::string, Shape>> tensors = {{"transformer.h.0.attn.c_attn.weight", {32, 24}},
                                                                    {"transformer.h.1.attn.c_attn.weight", {8, 24}},
                                                                    {"transformer.ln_f.weight", {8}},
                                                                    {"transformer.wpe.weight", {16, 8}},
                                                                    {"transformer.wte.weight", {32, 8}}};
        json header = json::object();
        std::size_t at = 0;
        for (const auto &[tensor, shape] : tensors) {
            const std::size_t bytes = static_cast<std::size_t>(elementCount(shape)) * 4;
            header[tensor] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
            at += bytes;
        }
        const std::filesystem::path file = m_folder.filePath("model.safetensors").toStdString();
        std::ofstream(file, std::ios::binary) << testing::rawSafetensors(header.dump(), at);
        const auto config = ModelConfig::parse(R"({"model_type": "gpt2", "vocab_size": 32})", "config.json");
        const auto checkpoint = Checkpoint::open({file});
        if (!config || !checkpoint)
            qFatal("the test's own model cannot be read");
        auto model = describeFromTensorNames(*config, *checkpoint);
        if (!model)
            qFatal("%s", model.error().text().c_str());
        return std::move(*model);
    }

    static LintReport lintText(const ModelDescription &model, const std::string &text) {
        return lint(model, recorded::choiceOf(text), nullptr, 2);
    }

private slots:
    void withoutAPlanItIsRefused() {
        const LintReport report = lint(gpt2(), {}, nullptr, 2);
        QVERIFY2(report.outcome == Outcome::Rejected && find(report, code::noPlan), told(report).c_str());
    }

    void neverOkAndTheEmbeddingIsNamed() {
        const ModelDescription model = gpt2();
        const LintReport report = lintText(model, "tp_plan:\n  transformer.h.*.attn.c_attn: colwise\n");
        QVERIFY2(report.outcome == Outcome::NotChecked && report.errors() == 0, told(report).c_str());
        const Diagnostic *finding = find(report, code::wholeEmbedding);
        QVERIFY2(finding && finding->severity == Severity::Warning, told(report).c_str());
        QCOMPARE(finding->modules, std::vector<std::string>{"transformer.wte"}); // not the table of positions
        const LintReport sharded = lintText(model, "tp_plan:\n  transformer.wte: embedding_rowwise\n");
        QVERIFY2(!find(sharded, code::wholeEmbedding), told(sharded).c_str());
    }

    void keysAreCheckedAllTheSame() {
        const LintReport report = lintText(gpt2(), "tp_plan:\n  transformer.h.*.attn.c_atn: colwise\n");
        QCOMPARE(report.outcome, Outcome::Rejected);
        QVERIFY2(find(report, code::unmatchedKey)->message.find("c_attn") != std::string::npos, told(report).c_str());
    }

    // A description whose flow loses the logits on their way knows nothing of them.
    void whatIsNotFollowedToItsEndIsNotOk() {
        auto subject = recorded::load("qwen3");
        QVERIFY(subject.has_value());
        LintOptions options;
        options.train = true;
        QCOMPARE(lint(subject->model, {}, &subject->builtin, 2, options).outcome, Outcome::Ok);
        ForwardProgram &root = subject->model.programs.at(subject->model.tree.root().forwardProgram);
        root.outputs = {Var("lost")};
        const LintReport report = lint(subject->model, {}, &subject->builtin, 2, options);
        QCOMPARE(report.outcome, Outcome::NotChecked);
        QCOMPARE(report.validTpSizes, std::vector<int>{1}); // one rank applies no plan
    }
};

QTEST_APPLESS_MAIN(UnknownFamilyTest)
#include "unknownfamilytest.moc"
