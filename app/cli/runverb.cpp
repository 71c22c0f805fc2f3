// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/cli/interrupt.h"
#include "app/cli/runners.h"
#include "app/cli/runoptions.h"
#include "app/cli/sinks.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/resources.h"
#include "measure/statistics.h"

namespace tpscope::cli {
namespace {

struct RunVerbOptions : RunOptions {
    std::string logits;
    std::string out;
};

void printText(const RunTrace &trace) {
    const Summary summary = summarize(trace.tokenMs);
    const std::string source(name(trace.source));
    std::cout << fixed(summary.median, 3) << " ms a token (median of " << summary.n << ", p90 "
              << fixed(summary.p90, 3) << ", p99 " << fixed(summary.p99, 3) << ", MAD " << fixed(summary.mad, 3)
              << ") - " << source << ", backend " << name(trace.backend) << ", tp " << trace.tp << ", hooks "
              << name(trace.hooks) << '\n';
    if (!trace.timeToFirstTokenMs.empty())
        std::cout << fixed(summarize(trace.timeToFirstTokenMs).median, 3) << " ms to the first token - " << source
                  << '\n';
    std::cout << trace.hooksRegistered << " hooks registered after the decode - " << source << '\n';
    for (const auto &[kind, count] : trace.collectives)
        std::cout << kind << ": " << count.count << " a token, " << grouped(count.bytes) << " bytes - " << source
                  << '\n';
    if (trace.graphs)
        std::cout << trace.graphs->graphBreaks << " graph breaks, " << trace.graphs->prefillGraphs
                  << " graphs in prefill, " << trace.graphs->decodeLaunches << " launches a token - "
                  << name(trace.graphs->source) << '\n';
    for (const auto &row : trace.outputIds) {
        std::cout << "ids:";
        for (const std::int64_t id : row)
            std::cout << ' ' << id;
        std::cout << '\n';
    }
    for (const std::string &statement : trace.statements)
        std::cout << "note: " << statement << '\n';
    if (!trace.partial.empty())
        std::cout << "partial: " << trace.partial << '\n';
}

int finish(const RunTrace &trace, const RunVerbOptions &options, CliSink &sink) {
    const nlohmann::json json = toJson(trace);
    if (!options.out.empty())
        if (const auto written = writeFileAtomically(options.out, json.dump(1) + "\n"); !written)
            return report(written.error());
    if (const auto finished = sink.finish(json); !finished)
        return report(finished.error());
    if (sink.streamsToStdout())
        return 0;
    if (options.json())
        return print(json);
    printText(trace);
    return 0;
}

int runRun(const RunVerbOptions &options) {
    const auto loaded = load(options);
    if (!loaded)
        return report(loaded.error());
    auto config = runConfigOf(*loaded, options);
    if (!config)
        return report(config.error());
    config->logitsFile = options.logits;
    if (!options.force)
        if (const auto refused = refusal(*loaded, *config)) {
            std::fprintf(stderr, "tpscope: not run: %s\n(--force runs it all the same)\n", refused->message.c_str());
            return options.json() ? print(toJson(refused->report), 1) : 1;
        }
    const auto runner = makeRunner(config->backend);
    if (!runner)
        return report(runner.error());
    auto sink = CliSink::open(options.events, options.quiet);
    if (!sink)
        return report(sink.error());
    const Interrupt interrupt;
    const RunInput input = runInputOf(*loaded, std::move(*config));
    const auto trace = (*runner)->run(input, **sink, interrupt.token());
    if (!trace)
        return report(trace.error());
    return finish(*trace, options, **sink);
}

} // namespace

void addRunVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<RunVerbOptions>();
    CLI::App *verb = app.add_subcommand("run", "Decode tokens: on real ranks, simulated, or with real transformers.");
    addRunOptions(*verb, *options);
    addHookOption(*verb, *options);
    verb->add_option("--logits", options->logits, "write prefill and decode logits to this safetensors file");
    verb->add_option("--out", options->out, "write the result as JSON to this file, for compare");
    verb->footer("Example: tpscope run --model qwen3-tiny --tp 2 --backend gloo --new-tokens 16\n"
                 "Exit status: 0 fine, 1 the plan cannot run, 2 unreadable input, 3 the run failed, 130 cancelled.");
    verb->callback([options, &exitStatus] { exitStatus = runRun(*options); });
}

} // namespace tpscope::cli
