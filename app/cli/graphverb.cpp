// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/verbs.h"
#include "graph/graphcapture.h"

namespace tpscope::cli {
namespace {

struct GraphVerbOptions : CommonOptions {
    int recompileLimit = 8;
};

std::string joined(const std::vector<int> &numbers) {
    std::string out;
    for (const int number : numbers)
        out += (out.empty() ? "" : " ") + std::to_string(number);
    return out;
}

nlohmann::json phaseJson(const PhaseCapture &phase, bool perStep) {
    nlohmann::json out{{"graphs", phase.graphs},
                       {"launches", phase.launches},
                       {"launch_sequence", joined(phase.launchSequence)},
                       {"launch_modules", phase.launchModules},
                       {"break_counter", phase.breakCounter}};
    if (perStep)
        out["launches_per_step"] = phase.launchesPerStep;
    nlohmann::json graphs = nlohmann::json::array();
    for (const CapturedGraph &graph : phase.graphList)
        graphs.push_back({{"id", graph.id}, {"frame", graph.frame}, {"program", graph.program},
                          {"ends_at", graph.endsAt}, {"holds", graph.labels}});
    out["graph_list"] = std::move(graphs);
    return out;
}

nlohmann::json captureJson(const GraphCapture &capture) {
    nlohmann::json sites = nlohmann::json::array();
    for (const HookSite &site : capture.sites)
        sites.push_back({{"module", site.name}, {"parameters", site.parameters}, {"rule", site.rule},
                         {"line", site.span.line}, {"registered_under_no_grad", site.registeredUnderNoGrad},
                         {"breaks_graph", site.breaksGraph}});
    nlohmann::json frames = nlohmann::json::array();
    for (const PhaseCapture *phase : {&capture.prefill, &capture.decode})
        for (const CapturedFrame &frame : phase->frames)
            frames.push_back({{"phase", phase == &capture.prefill ? "prefill" : "decode"},
                              {"name", frame.name},
                              {"graphs", frame.graphs},
                              {"eager_because", frame.eagerBecause.empty() ? nlohmann::json()
                                                                           : nlohmann::json(frame.eagerBecause)}});
    nlohmann::json breaks = nlohmann::json::array();
    for (const GraphBreak &entry : capture.breaks)
        breaks.push_back({{"module", entry.module}, {"cause", entry.cause}, {"rule", entry.rule},
                          {"line", entry.line}, {"frame", entry.frame}});
    return {{"hooks", name(capture.hooks)},
            {"source", "predicted"},
            {"hook_sites", std::move(sites)},
            {"prefill", phaseJson(capture.prefill, false)},
            {"decode", phaseJson(capture.decode, true)},
            {"graph_breaks", capture.graphBreaks},
            {"frames", std::move(frames)},
            {"breaks", std::move(breaks)},
            {"other_causes", "unknown until a trace is read"}};
}

void printText(const GraphCapture &capture) {
    std::cout << capture.graphBreaks << " graph breaks, " << capture.prefill.graphs << " graphs in prefill; "
              << capture.decode.launches << " launches a token in decode - predicted, hooks " << name(capture.hooks)
              << "\n\n"
              << "prefill  graphs " << capture.prefill.graphs << "  launches " << capture.prefill.launches
              << "  break counter " << capture.prefill.breakCounter << "  sequence "
              << joined(capture.prefill.launchSequence) << '\n'
              << "decode   graphs " << capture.decode.graphs << "  launches " << capture.decode.launches
              << "  break counter " << capture.decode.breakCounter << "  sequence "
              << joined(capture.decode.launchSequence) << "\n\n";
    std::cout << "hook sites: " << capture.sites.size() << (capture.sites.empty() ? "\n" : "\n");
    for (const GraphBreak &entry : capture.breaks)
        std::cout << "break at " << entry.module << ": " << entry.cause << " (rule " << entry.rule
                  << (entry.line ? ", line " + std::to_string(entry.line) : ", inherited") << ")\n";
    std::cout << "\ngraphs of a prefill forward, in launch order of the first layer:\n";
    for (const CapturedGraph &graph : capture.prefill.graphList) {
        std::cout << "  " << graph.id << "  " << graph.frame << "  [";
        for (std::size_t i = 0; i < graph.labels.size(); ++i)
            std::cout << (i ? ", " : "") << graph.labels[i];
        std::cout << "]" << (graph.endsAt.empty() ? "" : "  ends at " + graph.endsAt) << '\n';
    }
    std::cout << "other causes of breaks: unknown until a trace is read\n";
}

int runGraph(const GraphVerbOptions &options) {
    const auto loaded = load(options);
    if (!loaded)
        return report(loaded.error());
    LintOptions rules;
    rules.attention = options.attention;
    if (const auto refused = refusal(*loaded, std::move(rules))) {
        if (options.json())
            return print(toJson(refused->report), 1);
        std::cout << "no graph to predict: " << refused->message << '\n';
        return 1;
    }
    CaptureOptions capture;
    capture.recompileLimit = options.recompileLimit;
    capture.upstream = loaded->upstream();
    const auto graphs = captureGraphs(loaded->workspace->modelFor(loaded->hooks), loaded->plan, loaded->hooks, capture);
    if (!graphs)
        return report(graphs.error());
    if (options.json())
        return print(captureJson(*graphs));
    printText(*graphs);
    return 0;
}

} // namespace

void addGraphVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<GraphVerbOptions>();
    CLI::App *verb = app.add_subcommand("graph", "Predict graphs, breaks and launches under torch.compile.");
    addModelOption(*verb, *options);
    addPlanOptions(*verb, *options);
    addHookOption(*verb, *options);
    addFormatOption(*verb, *options);
    verb->add_option("--recompile-limit", options->recompileLimit, "Dynamo's recompile limit")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    verb->footer("Example: tpscope graph --model qwen3-8b --tp 2 --hooks module-backward");
    verb->callback([options, &exitStatus] { exitStatus = runGraph(*options); });
}

} // namespace tpscope::cli
