// SPDX-License-Identifier: GPL-3.0-or-later
// Predicted graphs against recordings of the probe script on transformers 5.21.1 and 5.24.0
// (tests/data/probe); module-backward is emulated on 5.24.
#include <filesystem>

#include "graphtesting.h"

using namespace tpscope;
using namespace tpscope::test;

class GraphProbeTest : public QObject {
    Q_OBJECT

private slots:
    void recordings_data();
    void recordings();
};

void GraphProbeTest::recordings_data() {
    QTest::addColumn<std::string>("path");
    for (const auto &entry : std::filesystem::directory_iterator(dataFolder + "probe"))
        if (entry.path().extension() == ".json")
            QTest::newRow(entry.path().stem().c_str()) << entry.path().string();
}

namespace {

Setup setupOf(const nlohmann::json &recorded, const std::string &path) {
    const std::string file = std::filesystem::path(path).stem().string();
    const std::string family = file.substr(0, file.find('-'));
    nlohmann::json config = readJson(fixtures + "models/" + family + "/config.json");
    config["num_hidden_layers"] = recorded.at("layers");
    config.erase("layer_types"); // of the fixture's depth; every layer is a full_attention one
    const nlohmann::json &plan = recorded.at("plan");
    return setup(config, family, plan.is_object() ? plan : nlohmann::json(),
                 upstreamOf(recorded.at("versions").at("transformers").get<std::string>()),
                 valueOf(parseHookMode(recorded.at("hooks").get<std::string>())));
}

// Code objects that gave graphs, in compile order, of lines like
// "0/2 wrapped_func@deprecation.py:121 ops=27 => graph".
std::vector<std::string> graphFrames(const nlohmann::json &phase) {
    static const std::regex pattern(
        R"(\d+/\d+ (?:torch_dynamo_resume_in_)?(.+?)(?:_at_\d+)?@(.+?):\d+ ops=[1-9]\d* => .*)");
    std::vector<std::string> names;
    for (const auto &line : phase.at("frames")) {
        const auto written = line.get<std::string>();
        std::smatch match;
        if (std::regex_match(written, match, pattern))
            names.push_back(match.str(1) + "@" + match.str(2));
    }
    return names;
}

std::string joined(const std::vector<std::string> &names) {
    std::string out;
    for (const std::string &name : names)
        out += name + "\n";
    return out;
}

void comparePhase(const PhaseCapture &found, const nlohmann::json &recorded) {
    QCOMPARE(found.graphs, recorded.at("graphs").get<int>());
    QCOMPARE(found.launches, recorded.at("launches").get<int>());
    QCOMPARE(found.breakCounter, recorded.at("break_counter").get<int>());
    compareSequence(found.launchSequence,
                    sequenceOf(recorded.at("launch_sequence").get<std::string>()));
    std::vector<std::string> frames;
    for (const CapturedGraph &graph : found.graphList)
        frames.push_back(graph.frame);
    QCOMPARE(joined(frames), joined(graphFrames(recorded)));
}

} // namespace

void GraphProbeTest::recordings() {
    QFETCH(std::string, path);
    const nlohmann::json recorded = readJson(path);
    const Setup s = setupOf(recorded, path);
    const GraphCapture found = valueOf(captureGraphs(s.model, s.plan, s.hooks));
    comparePhase(found.prefill, recorded.at("prefill"));
    comparePhase(found.decode, recorded.at("decode"));
    compareSequence(found.decode.launchesPerStep,
                    ints(recorded.at("decode").at("launches_per_step")));
    if (recorded.contains("explain"))
        QCOMPARE(found.graphBreaks, recorded.at("explain").at("graph_break_count").get<int>());
    if (s.hooks == HookMode::ModuleBackward)
        QCOMPARE(found.sites.size(), recorded.at("hooked_modules").get<std::size_t>());
}

QTEST_APPLESS_MAIN(GraphProbeTest)
#include "graphprobetest.moc"
