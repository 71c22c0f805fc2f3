// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QtTest>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "graph/graphcapture.h"
#include "plan/resolvedplan.h"

// What the tests of graph capture share: models of the recorded configurations, and comparisons
// with a recorded row.
namespace tpscope::test {

inline const std::string dataFolder = TPSCOPE_TEST_DATA "/";
inline const std::string fixtures = dataFolder + "fixtures/";

inline nlohmann::json readJson(const std::string &path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
}

// The value or a failed test with the error's text.
template <typename T> T valueOf(Result<T> result) {
    if (!result)
        qFatal("%s", result.error().text().c_str());
    return std::move(*result);
}

struct Setup {
    ModelDescription model;
    ResolvedPlan plan;
    HookMode hooks;
};

// rules: patterns to styles merged over the built-in plan, null for the built-in plan alone.
inline Setup setup(nlohmann::json config, const std::string &family, const nlohmann::json &rules,
                   const Upstream &upstream, HookMode hooks) {
    config["model_type"] = family;
    const ModelConfig parsed = valueOf(ModelConfig::parse(config.dump(), "config.json"));
    Setup made{valueOf(describe(parsed, upstream)), {}, hooks};
    PlanChoice choice;
    if (!rules.is_null()) {
        choice.kind = PlanChoice::Kind::Document;
        choice.document =
            valueOf(parsePlan(nlohmann::json{{"tp_plan", rules}}.dump(), "plan.json"));
    }
    const BuiltinPlan builtin = valueOf(loadBuiltinPlan(family));
    made.plan = resolvePlan(made.model, choice, &builtin, 2);
    return made;
}

inline Upstream upstreamOf(const std::string &version) { return valueOf(Upstream::parse(version)); }

inline std::vector<int> sequenceOf(const std::string &text) {
    std::istringstream in(text);
    return {std::istream_iterator<int>(in), {}};
}

inline std::vector<int> ints(const nlohmann::json &list) { return list.get<std::vector<int>>(); }

inline std::string text(const std::vector<int> &numbers) {
    std::string out;
    for (const int number : numbers)
        out += std::to_string(number) + " ";
    return out;
}

inline void compareSequence(const std::vector<int> &found, const std::vector<int> &expected) {
    QCOMPARE(QString::fromStdString(text(found)), QString::fromStdString(text(expected)));
}

inline void comparePrefill(const PhaseCapture &found, const nlohmann::json &recorded) {
    QCOMPARE(found.graphs, recorded.at("distinct_graphs").get<int>());
    QCOMPARE(found.launchesPerStep.at(0), recorded.at("launches_first_call").get<int>());
    QCOMPARE(found.launches, recorded.at("launches").get<int>());
    QCOMPARE(found.newGraphsPerStep.at(1), recorded.at("new_graphs_second_call").get<int>());
    QCOMPARE(found.breakCounter, recorded.at("break_counter").get<int>());
    compareSequence(found.launchSequence,
                    sequenceOf(recorded.at("launch_sequence").get<std::string>()));
}

inline void compareDecode(const PhaseCapture &found, const nlohmann::json &recorded) {
    compareSequence(found.newGraphsPerStep, ints(recorded.at("new_graphs_per_step")));
    QCOMPARE(found.graphs, recorded.at("distinct_graphs").get<int>());
    compareSequence(found.launchesPerStep, ints(recorded.at("launches_per_step")));
    QCOMPARE(found.launches, recorded.at("launches").get<int>());
    QCOMPARE(found.breakCounter, recorded.at("break_counter_after_4_steps").get<int>());
    compareSequence(found.launchSequence,
                    sequenceOf(recorded.at("launch_sequence").get<std::string>()));
}

// "torch_dynamo_resume_in_forward_at_244@modeling_qwen3.py:244 | ops=4 | BREAK in ..." -> frame,
// and how it ended.
inline void compareGraphs(const PhaseCapture &found, const nlohmann::json &recorded) {
    if (!recorded.contains("graphs"))
        return;
    static const std::regex pattern(
        R"((?:torch_dynamo_resume_in_)?(.+?)(?:_at_\d+)?@(.+?):\d+ \| ops=\d+ \| (\w+).*)");
    const auto lines = recorded.at("graphs").get<std::vector<std::string>>();
    QCOMPARE(found.graphList.size(), lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::smatch match;
        QVERIFY2(std::regex_match(lines[i], match, pattern), lines[i].c_str());
        const CapturedGraph &graph = found.graphList[i];
        QCOMPARE(QString::fromStdString(graph.frame),
                 QString::fromStdString(match.str(1) + "@" + match.str(2)));
        QCOMPARE(!graph.endsAt.empty(), match.str(3) == "BREAK");
        QVERIFY2(!graph.labels.empty(), graph.program.c_str());
    }
}

inline void compareRow(const GraphCapture &found, const nlohmann::json &recorded) {
    comparePrefill(found.prefill, recorded.at("prefill"));
    compareDecode(found.decode, recorded.at("decode"));
    compareGraphs(found.prefill, recorded.at("prefill"));
    compareGraphs(found.decode, recorded.at("decode"));
    if (const auto &explain = recorded.at("explain"); !explain.is_null()) {
        QCOMPARE(found.prefill.graphs, explain.at("graph_count").get<int>());
        QCOMPARE(found.graphBreaks, explain.at("graph_break_count").get<int>());
    }
}

} // namespace tpscope::test
